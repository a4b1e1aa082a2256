"""The floating-point rate of this machine: one large float32 matrix product in TensorFlow, 2 n³ operations.

    python -m scripts.contestants.matrix_product --size=3072
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from scripts.contestants import measurement


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=3072)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    tf.disable_eager_execution()
    measurement.report(measure(args), ("tensorflow", "numpy"))


def measure(args):
    with tf.Graph().as_default():
        # Variables, so that the product cannot be computed once and kept.
        a, b = (tf.get_variable(name, initializer=np.random.RandomState(0).rand(args.size, args.size).astype(np.float32))
                for name in "ab")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            product = tf.matmul(a, b).op  # the operation: its result is not copied out
            result = measurement.timed(lambda: session.run(product), args.steps, args.warmup)
    return dict(result, step_flops=2 * args.size ** 3)


if __name__ == "__main__":
    main()
