"""One worker of the cluster that `test_cluster` starts: builds its towers, trains, and writes what it holds.

    python -m tests.towers.cluster_worker HOST:PORT,HOST:PORT TASK_INDEX NUM_TOWERS OUTPUT.npz
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

import towers

STEPS = 50
CHANNELS = 3


def sizes(num_towers):
    """Unequal batches, one a tower."""
    return [3, 1, 2, 4, 1, 2][:num_towers]


def data(num_towers):
    """The whole batch: images far from 0 in one channel, other scales in the others, words, and targets."""
    random = np.random.RandomState(0)
    count = sum(sizes(num_towers))
    images = random.randn(count, 4, 5, CHANNELS) * [.1, 1., 3.] + [20., -1., 0.]
    return images, random.randint(0, 6, [count, 2]), random.randn(count, 2)


def parts(whole, num_towers):
    """The whole batch, split by tower."""
    return np.split(whole, np.cumsum(sizes(num_towers))[:-1])


def model(norm, mean):
    """The model function, with the given normalisation and mean over examples."""

    def model_fn(images, words, targets):
        dtype = images.dtype
        initializer = tf.random_normal_initializer(stddev=.3, dtype=tf.float64)

        def weights(name, shape):
            return tf.cast(tf.get_variable(name, shape, tf.float64, initializer=initializer), dtype)

        x = tf.nn.conv2d(norm(images, "bn0"), weights("w1", [3, 3, CHANNELS, 4]), [1, 1, 1, 1], "SAME")
        x = tf.nn.tanh(norm(x, "bn1"))
        x = tf.nn.tanh(norm(tf.nn.conv2d(x, weights("w2", [3, 3, 4, 4]), [1, 2, 2, 1], "SAME"), "bn2"))
        table = tf.get_variable("table", [6, 2], tf.float64, initializer=initializer)
        y = tf.matmul(tf.reduce_mean(x, [1, 2]), weights("w3", [4, 2]))
        y += tf.cast(tf.reduce_sum(tf.nn.embedding_lookup(table, words), 1), dtype)
        return mean(tf.reduce_sum(tf.square(y - targets), 1))

    return model_fn


def sync(statistics):
    return lambda x, name: towers.sync_bn(x, momentum=.9, name=name, statistics=statistics)


def train(session, step):
    return [session.run([step.train_op, step.loss])[1] for _ in range(STEPS)]


def main(hosts, task_index, num_local, output):
    cluster = towers.Cluster(hosts.split(","), int(task_index))
    num_local = int(num_local)
    num_towers = cluster.num_workers * num_local
    own = slice(cluster.task_index * num_local, (cluster.task_index + 1) * num_local)
    devices = towers.tower_devices(num_local, "cpu")
    results = {}
    for dtype in (np.float64, np.float32):
        for statistics in ("sum", "concat"):
            run_training(cluster, devices, num_towers, own, dtype, statistics, results)
    run_groups(cluster, devices, num_towers, own, results)
    run_reductions(cluster, devices, own, results)
    run_dropout(cluster, devices, num_towers, own, results)
    np.savez(output, **results)


def run_training(cluster, devices, num_towers, own, dtype, statistics, results):
    images, words, targets = data(num_towers)
    batches = [parts(part, num_towers)[own] for part in (images.astype(dtype), words, targets.astype(dtype))]
    name = "%s_%s_" % (np.dtype(dtype).name, statistics)
    # A server keeps variables from one session to the next, so each run has a container of its own.
    with tf.Graph().as_default() as graph, tf.container(name.replace("_", ".")):
        tf.set_random_seed(100 + cluster.task_index)  # workers that begin apart, to be given the chief's values
        tower_inputs = [[tf.constant(part) for part in inputs] for inputs in zip(*batches)]
        step = towers.build_train_step(
            model(sync(statistics), lambda x: towers.weighted_mean(x, 1.)), tower_inputs,
            tf.train.MomentumOptimizer(.05, .9), devices, cluster=cluster)
        collectives = [op for op in graph.get_operations() if op.type == "CollectiveReduce"]
        results.update((name + "kind/" + kind.kind, (kind.workers, kind.number, kind.bytes, kind.unknown))
                       for kind in towers.inspect(graph).collectives)
        alike = cluster.broadcast_variables()
        with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
            session.run(tf.global_variables_initializer())
            session.run(alike)
            first = session.run({v.op.name: v for v in tf.trainable_variables()})
            results.update((name + "first/" + key, value) for key, value in first.items())
            results[name + "losses"] = train(session, step)
            results[name + "collectives"] = len(collectives)
            values = session.run({v.op.name: v for v in tf.global_variables()})
            results.update((name + key, value) for key, value in values.items())


def group_sizes(num_workers, num_local):
    """Group sizes that are within a worker, or of whole workers."""
    num_towers = num_workers * num_local
    return [size for size in range(1, num_towers + 1)
            if num_towers % size == 0 and (num_local % size == 0 or size % num_local == 0)]


def group_data(num_towers):
    """For each tower its batch, whose mean is its own, and the gradient of its outputs."""
    random = np.random.RandomState(1)
    return [(2 * i + random.randn(count, 4, CHANNELS), random.randn(count, 4, CHANNELS))
            for i, count in enumerate(sizes(num_towers))]


def run_groups(cluster, devices, num_towers, own, results):
    """Two grouped layers beside each other: one step with what it gives, and what all variables are after three."""
    for size in group_sizes(cluster.num_workers, len(devices)):
        for statistics in ("sum", "concat"):
            name = "groups_%d_%s_" % (size, statistics)
            with tf.Graph().as_default() as graph, tf.container(name.replace("_", ".")):
                def model_fn(x, dy, size=size, statistics=statistics):
                    scaled = x * tf.get_variable("w", [CHANNELS], tf.float64, tf.ones_initializer())
                    y, z = [towers.sync_bn(scaled, momentum=.9, name=layer, statistics=statistics, group_size=size)
                            for layer in ("bn", "other")]
                    return {"y": y, "loss": tf.reduce_sum(y * dy) + tf.reduce_sum(z * tf.stop_gradient(z))}

                step = towers.build_train_step(
                    model_fn, [tuple(map(tf.constant, part)) for part in group_data(num_towers)[own]],
                    tf.train.GradientDescentOptimizer(.01), devices, cluster=cluster)
                results.update((name + "number/" + kind.kind + "/%d" % kind.workers, (kind.number, kind.bytes))
                               for kind in towers.inspect(graph).collectives)
                with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
                    session.run(tf.global_variables_initializer())
                    ys, gradients, _ = session.run([
                        [output["y"] for output in step.outputs],
                        {variable.op.name: gradient for gradient, variable in step.grads_and_vars}, step.train_op])
                    results[name + "y"] = np.concatenate(ys)
                    results.update((name + "gradient/" + key, value) for key, value in gradients.items())
                    moving = [v for v in tf.global_variables() if v.op.name.startswith("bn/moving")]
                    results.update((name + "first/" + v.op.name, session.run(v)) for v in moving)
                    for _ in range(2):
                        session.run(step.train_op)
                    results.update((name + "after/" + v.op.name, session.run(v)) for v in tf.global_variables())


def run_reductions(cluster, devices, own, results):
    """Every reduction, per tower, and the gradients of some."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)

        def model_fn(i):
            tower = towers.current_tower()
            x = tf.cast(i, tf.float32) + [1., 2.]
            rows = tf.fill([i + 1, 2], i)
            sums = {dtype: towers.all_sum(tf.cast(i + 1, dtype)) for dtype in
                    ("float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64", "complex64")}
            concat = towers.all_concat(tf.cast(rows, tf.float32) * x)
            lowest = towers.merge(lambda xs: tf.reduce_min(tf.stack(xs), 0), x)
            weighted = towers.weighted_mean(x, tf.cast(i, tf.float32))
            return {
                "index": tf.constant(tower.index), "num_towers": tf.constant(tower.num_towers),
                "is_main": tf.constant(tower.is_main), "keeps_state": tf.constant(tower.keeps_state),
                "sum": towers.all_sum(x), "mean": towers.all_mean(i), "concat": concat,
                "columns": towers.all_concat(tf.transpose(rows), axis=-1), "bools": towers.all_concat(rows > 0),
                "lowest": lowest, "weighted": weighted,
                "x": x, "loss": tf.reduce_sum(tf.square(concat)) * (tf.cast(i, tf.float32) + 1),
                "sums": tf.stack([tf.cast(sums[name], tf.float64) for name in sorted(sums)])}

        inputs = [tf.constant(i) for i in range(own.start, own.stop)]
        outputs = towers.build(model_fn, inputs, devices, training=True, cluster=cluster)
        gradients = tf.gradients([output["loss"] for output in outputs], [output["x"] for output in outputs])
        for output, gradient in zip(outputs, gradients):
            output["gradient"] = gradient
        with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
            for index, values in zip(range(own.start, own.stop), session.run(outputs)):
                results.update(("tower_%d/%s" % (index, key), value) for key, value in values.items())


def masks(x):
    """A model of one dropout layer."""
    return towers.layers.dropout(x, .5, seed=3)


def run_dropout(cluster, devices, num_towers, own, results):
    """The masks of the layer, over batches of unequal size."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        inputs = [tf.constant(part) for part in parts(np.ones([sum(sizes(num_towers)), 20], np.float32), num_towers)[own]]
        outputs = towers.build(masks, inputs, devices, training=True, cluster=cluster)
        with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
            session.run(step.initializer)
            results["masks"] = np.concatenate(session.run(outputs))


if __name__ == "__main__":
    tf.disable_eager_execution()
    main(*sys.argv[1:])
