"""Prints, on paper, what a training step takes on 1 to 4,096 workers, with and without groups for sync BN, and draws it.

    python scripts/scaling.py                           the tables of SCALING.md, and docs/scaling.png
    python scripts/scaling.py --measure                 with the latency of CollectiveReduce measured here first
    python scripts/scaling.py --configs=configs/cityscapes_pspnet50.py --compute=0.5 --jitter=0.01 --figure=jitter.png

Collectives and bytes are counted in the training graph of each configuration, built for a cluster of two workers; the rest
are the assumptions that it prints. No run of this size was made: see SCALING.md and scripts/scaling_model.py.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import matplotlib
import tensorflow.compat.v1 as tf
from absl import flags

import towers
from scripts import collective_costs, configuration, layer_costs, network, scaling_model
from scripts.commandline import UsageError
from scripts.scaling_model import Fabric, Traffic

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

FLAGS = flags.FLAGS
flags.DEFINE_list("configs", ["configs/cityscapes_pspnet50.py", "configs/cityscapes_pspnet101.py"], "Configurations.")
flags.DEFINE_integer("max_workers", 4096, "The largest number of workers, a power of two.", lower_bound=2)
flags.DEFINE_integer("towers", 8, "Towers of a worker: GPUs of a machine. Only named in the tables.", lower_bound=1)
flags.DEFINE_float("compute", None, "Seconds of a step on one worker; unset: --seconds_per_teramac times the work.",
                   lower_bound=1e-6)
flags.DEFINE_integer("images", 2, "Images of a tower in a step, for --seconds_per_teramac.", lower_bound=1)
flags.DEFINE_float("seconds_per_teramac", 0.294, "Of a tower, forward and backward: 7 hours for 37,200 steps of 2 images, "
                   "published for PSPNet-50 at 713x713 on 8 RTX 2080 Ti.", lower_bound=1e-9)
flags.DEFINE_float("jitter", 0., "Standard deviation of a step's computing, as a share of it: what waiting for the slowest "
                   "costs. Unknown, and left out unless given.", lower_bound=0)
flags.DEFINE_float("grpc_latency", 250e-6, "α of TensorFlow's CollectiveReduce over gRPC, in seconds; see --measure.",
                   lower_bound=0)
flags.DEFINE_float("grpc_bandwidth", 1e9, "β of the same over a network, in bytes a second.", lower_bound=1)
flags.DEFINE_float("roce_latency", 15e-6, "α of a library such as NCCL over 100 Gb/s Ethernet.", lower_bound=0)
flags.DEFINE_float("roce_bandwidth", 10e9, "β of the same.", lower_bound=1)
flags.DEFINE_float("infiniband_latency", 6e-6, "α of such a library over 8 ports of 200 Gb/s InfiniBand.", lower_bound=0)
flags.DEFINE_float("infiniband_bandwidth", 80e9, "β of the same.", lower_bound=1)
flags.DEFINE_bool("measure", False, "Measure --grpc_latency between two processes of this machine.")
flags.DEFINE_string("figure", os.path.join(ROOT, "docs", "scaling.png"), "PNG to write.")

SHARE = 0.1  # of a step: what the sums of the synchronised layers may take


def main():
    if FLAGS.max_workers & (FLAGS.max_workers - 1):
        raise UsageError("--max_workers={}: a power of two is wanted, such as 4096".format(FLAGS.max_workers))
    if FLAGS.measure:
        FLAGS.grpc_latency, local = collective_costs.measure()
        print("measured between two processes here: {:.0f} µs a message, {:.2f} GB/s\n".format(
            FLAGS.grpc_latency * 1e6, local / 1e9))
    found = []
    for path in FLAGS.configs:
        name, traffic, teramacs = count(path)
        compute = FLAGS.compute or FLAGS.seconds_per_teramac * FLAGS.images * teramacs
        found.append((name, traffic, compute))
        print("\n".join(counted(name, traffic, compute)) + "\n")
        for fabric in fabrics():
            print("\n".join(table(traffic, fabric, compute)) + "\n")
    draw(found, FLAGS.figure)
    print("written: {}".format(FLAGS.figure))


def fabrics():
    """The ways from worker to worker: what this project runs on, and two that its arithmetic would have with a library."""
    return [
        Fabric("CollectiveReduce over gRPC, as it is", FLAGS.grpc_latency, FLAGS.grpc_bandwidth, ("ring",)),
        Fabric("100 Gb/s Ethernet", FLAGS.roce_latency, FLAGS.roce_bandwidth, ("ring", "halving", "tree")),
        Fabric("8 x 200 Gb/s InfiniBand", FLAGS.infiniband_latency, FLAGS.infiniband_bandwidth, ("ring", "halving", "tree"))]


def count(path):
    """(name, `Traffic`, 10^12 MACs of an image forward and backward) of the configuration in a file."""
    config = read(path)
    network.check_crop(config, "input.crop_size")
    config.model.norm_group_size = None
    height, width = config.input.crop_size
    with tf.Graph().as_default() as graph:
        part = {"image": tf.zeros([1, height, width, 3]), "label": tf.zeros([1, height, width], tf.int32)}
        towers.build_train_step(network.training_model(config), [part], tf.train.MomentumOptimizer(0.1, 0.9), ["/cpu:0"],
                                cluster=towers.Cluster(["localhost:1", "localhost:2"], 0))
        total = layer_costs.total(layer_costs.layer_costs(graph, "tower_0/"))
        traffic = traffic_of(towers.inspect(graph))
    return os.path.splitext(os.path.basename(path))[0], traffic, (total.macs + total.backward) / 1e12


def traffic_of(inspection):
    """The `Traffic` of a graph without groups."""
    kinds = {kind.kind: (kind.number, kind.bytes) for kind in inspection.collectives}
    return Traffic(*(kinds.get(kind, (0, 0)) for kind in ("sync BN forward", "sync BN backward", "gradients", "other")))


def read(path):
    """The checked configuration of a file."""
    from ml_collections.config_flags import config_flags

    holder = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=holder)
    with commandline.usage_errors():
        holder(["scaling", "--config={}".format(os.path.join(ROOT, path))])
        return configuration.check(holder.config)


def groups():
    """The columns: a title, and from W to the workers of a group."""
    return [("all workers", lambda w: w), ("groups of 8 workers", lambda w: min(w, 8)), ("each worker", lambda w: 1)]


def counted(name, traffic, compute):
    """Lines: what was counted in the graph."""
    lines = ["{}: a step computes {:.3f} s on one worker of {} towers, and sums over workers".format(
        name, compute, FLAGS.towers)]
    for kind, (number, size) in traffic._asdict().items():
        lines.append("  {:<10}{:>5} collectives, {:>13,} bytes".format(kind, number, size))
    return lines


def table(traffic, fabric, compute):
    """Lines of Markdown: seconds a step and efficiency by number of workers, and by whose statistics are shared."""
    def step(w, group):
        return scaling_model.step(w, group, traffic, fabric, compute, FLAGS.jitter * compute)

    lines = ["{}: {:.0f} µs a message, {:g} GB/s, {}".format(
        fabric.name, fabric.latency * 1e6, fabric.bandwidth / 1e9, " or ".join(fabric.algorithms)), "",
        "| workers | " + " | ".join("statistics of " + title for title, _ in groups())
        + " | of the first: sync BN, gradients, waiting |",
        "|---" * (len(groups()) + 2) + "|"]
    for w in (1, 2, 8, 64, 512, 4096):
        if w > FLAGS.max_workers:
            break
        whole = step(w, w)
        cells = ["{:.3g} s, {:.0f}%".format(*_with_efficiency(step(w, size(w)), compute)) for _, size in groups()]
        lines.append("| {:,} | {} | {:.3g}, {:.3g}, {:.3g} s |".format(
            w, " | ".join(cells), whole.layers, whole.gradients, whole.stragglers))
    limit = scaling_model.limit(SHARE, FLAGS.max_workers, lambda w: step(w, w))
    lines += ["", "sync BN over all workers takes more than {:.0f}% of a step {}".format(
        100 * SHARE, "at no such number of workers" if limit is None else "from {:,} workers on".format(limit))]
    return lines


def _with_efficiency(step, compute):
    whole = scaling_model.seconds(step)
    return whole, 100 * compute / whole


def draw(found, path):
    """Step time over the number of workers, a panel a network and fabric, a line a size of groups."""
    columns = fabrics()
    figure, axes = pyplot.subplots(len(found), len(columns), figsize=(4.3 * len(columns), 3.3 * len(found)), squeeze=False,
                                   sharex=True)
    workers = [2 ** k for k in range(FLAGS.max_workers.bit_length())]
    for row, (name, traffic, compute) in zip(axes, found):
        for axis, fabric in zip(row, columns):
            for (title, size), color in zip(groups(), ("tab:red", "tab:orange", "tab:blue")):
                axis.plot(workers, [scaling_model.seconds(scaling_model.step(
                    w, size(w), traffic, fabric, compute, FLAGS.jitter * compute)) for w in workers], color=color, label=title)
            axis.axhline(compute, color="0.6", linestyle=":", label="computing alone")
            axis.set_xscale("log", base=2)
            axis.set_xticks([w for w in workers if w.bit_length() % 3 == 1], [
                "{:,}".format(w) for w in workers if w.bit_length() % 3 == 1])
            if axis is row[0]:
                axis.set_yscale("log")
            else:
                axis.set_ylim(0.95 * compute, max(1.25 * compute, axis.get_ylim()[1]))
            axis.set_title("{}\n{}".format(name, fabric.name), fontsize=9)
            axis.grid(alpha=0.3, which="both")
            axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("workers")
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds a step, modelled")
    axes[0, 0].legend(fontsize=8, title="statistics of", title_fontsize=8)
    figure.tight_layout()
    figure.savefig(path + ".partial", format="png", dpi=80)
    pyplot.close(figure)
    os.replace(path + ".partial", path)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
