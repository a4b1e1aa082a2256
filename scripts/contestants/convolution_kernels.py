"""The convolutions of a network one by one: forward pass, gradients, and the gradients in other ways.

    python -m scripts.contestants.convolution_kernels --network=pspnet50 --crop=473

A stride-1 convolution's input gradient is also a convolution of the output's gradient with the turned kernel, and a 1x1
kernel's gradient is also a matrix product. Whether these kernels are faster than TensorFlow's own is what this tells: a line
a shape, with milliseconds of each, and the sums over the network. Strided convolutions are left out.
"""

import argparse
import collections
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from scripts.contestants import networks, training_step

WAYS = ("forward", "input gradient", "as a convolution", "kernel gradient", "as a product")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=networks.NETWORKS, default="pspnet50")
    parser.add_argument("--crop", type=int, default=473)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    tf.disable_eager_execution()
    totals = dict.fromkeys(WAYS, 0.0)
    print("milliseconds: " + ", ".join(WAYS))
    for (image, kernel, padding), count in sorted(convolutions(args.network, args.crop).items()):
        found = milliseconds(image, kernel, padding, args.steps)
        shapes = "{:<20} {:<22} x{:<3}".format(str(image), str(kernel), count)
        print(shapes + "".join("{:9.2f}".format(found[way]) for way in WAYS), flush=True)
        for way in WAYS:
            totals[way] += count * found[way]
    print("{:<48}{}".format("all", "".join("{:9.0f}".format(totals[way]) for way in WAYS)))


def convolutions(network, crop):
    """How often a network convolves which shapes with stride 1: a Counter of (image shape, kernel shape, padding)."""
    with tf.Graph().as_default() as graph:
        image, label = training_step.data(network, 1, crop)
        inputs = {"image": tf.zeros(image.shape), "label": tf.zeros(label.shape, tf.int32)}
        towers.build(networks.model(network, "sync"), [inputs], ["/cpu:0"], training=True)
        return collections.Counter(
            (tuple(op.inputs[0].shape.as_list()), tuple(op.inputs[1].shape.as_list()), op.get_attr("padding").decode())
            for op in graph.get_operations() if op.type == "Conv2D" and op.get_attr("strides") == [1, 1, 1, 1])


def ways(image, kernel, padding):
    """The tensors of `WAYS`, a dict, with random activations and weights; no product where the kernel is not 1x1."""
    rng = np.random.RandomState(0)

    def tensor(shape):
        return tf.get_variable("v{}".format(len(tf.global_variables())), use_resource=True,
                               initializer=rng.normal(size=shape).astype(np.float32)).read_value()

    x, w, stride = tensor(image), tensor(kernel), [1, 1, 1, 1]
    y = tf.nn.conv2d(x, w, stride, padding)
    dy = tensor(y.shape.as_list())
    edge = [[0, 0], [kernel[0] - 1] * 2, [kernel[1] - 1] * 2, [0, 0]]
    turned = tf.transpose(tf.reverse(w, [0, 1]), [0, 1, 3, 2])
    again = tf.nn.conv2d(dy if padding == "SAME" else tf.pad(dy, edge), turned, stride, padding)
    found = {"forward": y, "input gradient": tf.nn.conv2d_backprop_input(image, w, dy, stride, padding),
             "as a convolution": again, "kernel gradient": tf.nn.conv2d_backprop_filter(x, kernel, dy, stride, padding)}
    if kernel[:2] == (1, 1):
        found["as a product"] = tf.matmul(tf.reshape(x, [-1, kernel[2]]), tf.reshape(dy, [-1, kernel[3]]), transpose_a=True)
    return found


def milliseconds(image, kernel, padding, steps):
    """Milliseconds of each of `WAYS`, the median of some runs; what a shape cannot do another way stands for it."""
    found = {}
    with tf.Graph().as_default(), tf.Session() as session:
        fetches = ways(image, kernel, padding)
        session.run(tf.global_variables_initializer())
        for way, fetch in fetches.items():
            session.run(fetch.op)
            seconds = []
            for _ in range(steps):
                start = time.perf_counter()
                session.run(fetch.op)
                seconds.append(time.perf_counter() - start)
            found[way] = 1e3 * statistics.median(seconds)
    found.setdefault("as a product", found["kernel gradient"])
    return found


if __name__ == "__main__":
    main()
