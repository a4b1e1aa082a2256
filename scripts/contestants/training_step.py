"""A training step of this project: its seconds, its peak memory, and the ops of its graph.

    python -m scripts.contestants.training_step --network=pspnet50 --norm=sync --towers=2 --batch=2 --crop=473

One batch of random images is fed to every step, and the weights are drawn from one seed, so that all ways to normalise start
from the same loss (`first_loss`). With --profile one more step is traced, after everything was measured, and `op_seconds` says
what each kind of op took of it; with --live, `live_bytes` are the most that the tensors of one more step took at once.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from scripts import layer_costs
from scripts.contestants import live_memory, measurement, networks

LEARNING_RATE, MOMENTUM = 1e-3, 0.9  # small: random labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=networks.NETWORKS, required=True)
    parser.add_argument("--norm", choices=networks.NORMS, default="sync")
    parser.add_argument("--towers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2, help="images a step, of all towers")
    parser.add_argument("--crop", type=int, default=65)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--live", action="store_true")
    args = parser.parse_args()
    tf.disable_eager_execution()
    measurement.report(measure(args), ("tensorflow", "numpy"))


def measure(args):
    """The result of a run with parsed arguments, a dict."""
    devices = towers.tower_devices(args.towers, "cpu")
    with tf.Graph().as_default() as graph:
        step, feed = build(args.network, args.norm, devices, args.batch, args.crop, recompute=args.recompute)
        result = count_ops(graph)
        with tf.Session(config=towers.session_config(devices)) as session:
            session.run(tf.global_variables_initializer())
            fetches = [step.train_op, step.loss]
            result.update(measurement.timed(lambda: float(session.run(fetches, feed)[1]), args.steps, args.warmup))
            if args.profile:
                result["op_seconds"] = op_seconds(session, fetches, feed)
            if args.live:
                result["live_bytes"] = live_memory.peak(session, fetches, feed)
    result["step_flops"] = step_flops(args.network, args.norm, args.crop) * args.batch
    return result


def build(network, norm, devices, batch, crop, **options):
    """Adds the step to the default graph; returns (`towers.TrainStep`, what to feed). Options go to `build_train_step`."""
    tf.set_random_seed(0)
    image, label = data(network, batch, crop)
    inputs = {"image": tf.placeholder(tf.float32, image.shape), "label": tf.placeholder(tf.int32, label.shape)}
    optimizer = tf.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM)
    step = towers.build_train_step(
        networks.model(network, norm), towers.split_batch(inputs, len(devices)), optimizer, devices, **options)
    return step, {inputs["image"]: image, inputs["label"]: label}


def data(network, batch, crop):
    """The batch of every step: images [batch, crop, crop, 3] float32 and labels int32, the same for all contestants."""
    rng = np.random.RandomState(0)
    image = rng.normal(size=(batch, crop, crop, 3)).astype(np.float32)
    return image, rng.randint(networks.num_classes(network), size=networks.label_shape(network, batch, crop)).astype(np.int32)


def count_ops(graph):
    """A dict of ops (all) and backward_ops (those of the backward pass) of a graph that holds a step."""
    operations = graph.get_operations()
    return {"ops": len(operations), "backward_ops": sum(op.name.startswith("gradients") for op in operations)}


def step_flops(network, norm, crop):
    """Floating-point operations of a step with one image: two for each MAC of forward and backward pass."""
    with tf.Graph().as_default() as graph:
        image, label = data(network, 1, crop)
        inputs = {"image": tf.zeros(image.shape), "label": tf.zeros(label.shape, tf.int32)}
        towers.build(networks.model(network, norm), [inputs], ["/cpu:0"], training=True)
        total = layer_costs.total(layer_costs.layer_costs(graph, "tower_0/"))
    return 2 * (total.macs + total.backward)


def op_seconds(session, fetches, feed):
    """Seconds of each kind of op in one traced step, summed over the threads that computed them, largest first."""
    metadata = tf.RunMetadata()
    session.run(fetches, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    kinds = {op.name: op.type for op in session.graph.get_operations()}
    sums = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            # Ops that TensorFlow's optimiser made are not in the graph: the label of these has the kind.
            kind = kinds.get(node.node_name) or node.timeline_label.partition(" = ")[2].partition("(")[0] or "other"
            kind = kind.replace("_MklNative", "").replace("_Mkl", "")
            sums[kind] = sums.get(kind, 0) + (node.op_end_rel_micros - node.op_start_rel_micros) / 1e6
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    main()
