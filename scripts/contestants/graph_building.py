"""Building the graph of a training step: seconds and ops, for any number of towers.

    python -m scripts.contestants.graph_building --network=pspnet101 --towers=16

No step is run; the crop is small, as sizes make no ops.
"""

import argparse
import time

import tensorflow.compat.v1 as tf

import towers
from scripts.contestants import measurement, networks, training_step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=networks.NETWORKS, required=True)
    parser.add_argument("--norm", choices=networks.NORMS, default="sync")
    parser.add_argument("--towers", type=int, default=1)
    parser.add_argument("--crop", type=int, default=65)
    args = parser.parse_args()
    tf.disable_eager_execution()
    measurement.report(measure(args), ("tensorflow", "numpy"))


def measure(args):
    devices = towers.tower_devices(args.towers, "cpu")
    with tf.Graph().as_default():  # what TensorFlow loads on first use is no tower's
        training_step.build("small_resnet", args.norm, devices[:1], 1, 65)
    with tf.Graph().as_default() as graph:
        wall, cpu = time.perf_counter(), time.process_time()
        training_step.build(args.network, args.norm, devices, args.towers, args.crop)
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        counts = training_step.count_ops(graph)
    return dict(counts, step_seconds=[seconds], step_cpu_seconds=[cpu_seconds], peak_bytes=measurement.peak_bytes(),
                tower_seconds=seconds / args.towers, tower_ops=counts["ops"] / args.towers, towers=args.towers)


if __name__ == "__main__":
    main()
