"""The residual networks for CIFAR of He et al. (CVPR 2016, section 4.2), with 6n+2 layers.

    3x3 16 → n units of 16 → n units of 32 → n units of 64 → mean over places → dense

A unit is 3x3 → norm → ReLU → 3x3 → norm, added to its input, then ReLU. The second and the third stage halve the
size in their first unit; there the input is subsampled and padded with zero channels (their option A), so that
shortcuts have no weights. n = 3, 5, 7, 9, 18 are ResNet-20, 32, 44, 56 and 110: 0.27, 0.46, 0.66, 0.85, 1.7 million
parameters.

Variables, under `resnet/`: `stem/conv/kernel`, `stem/bn/...` and `stage{1-3}/unit{1..n}/{conv1,conv2}/kernel`,
`.../{bn1,bn2}/...`; and `logits/{kernel,bias}`.
"""

import tensorflow.compat.v1 as tf

import towers
from models import resnet


def cifar_resnet(images, n, norm, num_classes, width=16):
    """Logits [N, num_classes].

    Args:
      images: [N, H, W, 3] float, normalised; 32x32 for CIFAR, any size will do.
      n: units a stage; the network has 6n+2 layers.
      norm: `norm(inputs, name=...)`, the normalisation after each convolution.
      width: channels of the first stage; the others have twice and four times as many.
    Raises:
      ValueError: n or width below 1.
    """
    if n < 1 or width < 1:
        raise ValueError("n is {} and width {}: the network needs 1 or more of each".format(n, width))
    with tf.variable_scope("resnet"):
        with tf.variable_scope("stem"):
            x = tf.nn.relu(norm(resnet.conv2d(images, width, 3, "conv"), name="bn"))
        for stage in range(1, 4):
            with tf.variable_scope("stage%d" % stage):
                for k in range(n):
                    with tf.variable_scope("unit%d" % (k + 1)):
                        x = _unit(x, width * 2 ** (stage - 1), 2 if stage > 1 and k == 0 else 1, norm)
    x = tf.reduce_mean(x, axis=[1, 2])
    return towers.layers.dense(x, num_classes, kernel_initializer=tf.variance_scaling_initializer(1.), name="logits")


def _unit(x, channels, stride, norm):
    y = tf.nn.relu(norm(resnet.conv2d(x, channels, 3, "conv1", stride), name="bn1"))
    y = norm(resnet.conv2d(y, channels, 3, "conv2"), name="bn2")
    if stride > 1:
        more = channels - x.shape.as_list()[-1]
        x = tf.pad(x[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [more // 2, more - more // 2]])
    return tf.nn.relu(x + y)
