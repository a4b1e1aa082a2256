"""The training step of tf_keras: SyncBatchNormalization under MirroredStrategy, a replica a logical CPU device.

    python -m scripts.contestants.keras_step --network=resnet50 --towers=2 --batch=4 --crop=225

The network is the `resnet50` (or `small_resnet`) of scripts/contestants/networks.py, written with Keras's functional API layer
by layer: its variables have the same shapes in the same order. The loop is a custom one in a `tf.function`, which costs less
than `fit`.
"""

import argparse
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
import tf_keras

from scripts.contestants import measurement, networks, training_step

EPSILON, NORM_MOMENTUM = 1e-5, 0.9
STRIDES, DILATIONS = (1, 2, 1, 1), (1, 1, 2, 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=sorted(networks.UNITS), required=True)
    parser.add_argument("--towers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--crop", type=int, default=65)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    args = parser.parse_args()
    measurement.report(measure(args), ("tensorflow", "tf_keras", "numpy"))


def measure(args):
    """The result of a run with parsed arguments, a dict. Needs eager execution, and devices that are not set up yet."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.towers)
    strategy = tf.distribute.MirroredStrategy(["/cpu:%d" % k for k in range(args.towers)])
    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        model = resnet(args.network, args.crop)
        optimizer = tf_keras.optimizers.SGD(training_step.LEARNING_RATE, training_step.MOMENTUM, jit_compile=False)
        optimizer.build(model.trainable_variables)
    image, label = training_step.data(args.network, args.batch, args.crop)

    def values(context):
        mine = slice(context.replica_id_in_sync_group * args.batch // args.towers,
                     (context.replica_id_in_sync_group + 1) * args.batch // args.towers)
        return tf.constant(image[mine]), tf.constant(label[mine])

    parts = strategy.experimental_distribute_values_from_function(values)

    def replica_step(inputs):
        with tf.GradientTape() as tape:
            logits = model(inputs[0], training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(inputs[1], logits)
            loss = tf.reduce_sum(losses) / args.batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def step(inputs):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(inputs,)), axis=None)

    result = measurement.timed(lambda: float(step(parts)), args.steps, args.warmup)
    return dict(result, parameters=int(sum(v.shape.num_elements() for v in model.trainable_variables)),
                ops=len(step.get_concrete_function(parts).graph.get_operations()))


def resnet(network, crop):
    """The classifier as a `tf_keras.Model` from images to logits."""
    units, width = networks.UNITS[network]
    image = tf_keras.Input((crop, crop, 3))
    x = _conv_norm(image, width, 3, strides=2)
    x = _conv_norm(x, width, 3)
    x = _conv_norm(x, 2 * width, 3)
    x = tf_keras.layers.MaxPooling2D(3, 2)(tf_keras.layers.ZeroPadding2D(1)(x))
    for stage, (count, stride, dilation) in enumerate(zip(units, STRIDES, DILATIONS)):
        for unit in range(count):
            x = _bottleneck(x, width * 2 ** stage, stride if unit == 0 else 1, dilation)
    return tf_keras.Model(image, tf_keras.layers.Dense(networks.CLASSES)(tf_keras.layers.GlobalAveragePooling2D()(x)))


def _bottleneck(x, width, stride, dilation):
    y = _conv_norm(x, width, 1)
    y = _conv_norm(y, width, 3, stride, dilation)
    y = _conv_norm(y, 4 * width, 1, activation=False)
    if stride != 1 or x.shape[-1] != 4 * width:
        x = _conv_norm(x, 4 * width, 1, stride, activation=False)
    return tf_keras.layers.ReLU()(tf_keras.layers.Add()([y, x]))


def _conv_norm(x, filters, size, strides=1, dilation=1, activation=True):
    padding = "same"
    if strides > 1 and size > 1:  # symmetric, where 'same' is not
        x, padding = tf_keras.layers.ZeroPadding2D(size // 2)(x), "valid"
    initializer = tf_keras.initializers.VarianceScaling(2., "fan_out", "untruncated_normal")
    x = tf_keras.layers.Conv2D(filters, size, strides, padding, dilation_rate=dilation, use_bias=False,
                               kernel_initializer=initializer)(x)
    x = tf_keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, epsilon=EPSILON, synchronized=True)(x)
    return tf_keras.layers.ReLU()(x) if activation else x


if __name__ == "__main__":
    main()
