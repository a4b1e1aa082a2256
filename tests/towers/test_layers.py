"""The layers against NumPy everywhere, and against tf.layers on TensorFlow 1.15: names, outputs, gradients, checkpoints."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

layers = towers.layers
IMAGES = np.random.RandomState(0).randn(2, 7, 6, 3)


def conv_numpy(x, kernel, stride, padding, dilation):
    """A plain loop over output places; 'SAME' pads (total // 2 before, the rest after)."""
    size = [(k - 1) * d + 1 for k, d in zip(kernel.shape[:2], dilation)]
    if padding == "same":
        out = [-(-n // s) for n, s in zip(x.shape[1:3], stride)]
        total = [max((o - 1) * s + k - n, 0) for o, s, k, n in zip(out, stride, size, x.shape[1:3])]
        x = np.pad(x, [(0, 0)] + [(t // 2, t - t // 2) for t in total] + [(0, 0)], "constant")
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:3], size, stride)]
    y = np.zeros([x.shape[0]] + out + [kernel.shape[3]])
    for i, j in itertools.product(range(out[0]), range(out[1])):
        top, left = i * stride[0], j * stride[1]
        patch = x[:, top:top + size[0]:dilation[0], left:left + size[1]:dilation[1]]
        y[:, i, j] = np.tensordot(patch, kernel, 3)
    return y


def run(layer, x=IMAGES, dtype=tf.float64, placeholder=None):
    """The output of `layer(x)` and its variables by name, with random values for all of them."""
    with tf.Graph().as_default():
        inputs = tf.placeholder_with_default(tf.constant(x, dtype), placeholder or x.shape)
        y = layer(inputs)
        random = np.random.RandomState(5)
        with oracles.session() as sess:
            values = {}
            for v in tf.global_variables():
                values[v.op.name] = random.randn(*v.shape.as_list())
                v.load(values[v.op.name], sess)
            value = sess.run(y)
            assert y.shape.is_compatible_with(value.shape) and y.dtype == dtype
            return value, values, y.shape.as_list()


@pytest.mark.parametrize("padding", ["same", "valid", "SAME"])
@pytest.mark.parametrize("kernel,stride,dilation", [(3, 1, 1), ((2, 3), (2, 1), 1), (3, 1, 2), (1, 2, 1), ((3, 1), 1, (2, 1))])
def test_conv2d_is_the_convolution(padding, kernel, stride, dilation):
    y, values, shape = run(lambda x: layers.conv2d(x, 4, kernel, stride, padding, dilation_rate=dilation))
    pair = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    expected = conv_numpy(IMAGES, values["conv2d/kernel"], pair(stride), padding.lower(), pair(dilation))
    np.testing.assert_allclose(y, expected + values["conv2d/bias"], atol=1e-10)
    assert shape == list(y.shape)


def test_conv2d_of_an_unknown_size():
    y, _, shape = run(lambda x: layers.conv2d(x, 4, 3), placeholder=[None, None, None, 3])
    assert shape == [None, None, None, 4] and y.shape == (2, 5, 4, 4)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel,stride", [(3, 2), ((2, 3), (1, 3)), (2, 3), (1, 1)])
@pytest.mark.parametrize("known", [True, False])
def test_conv2d_transpose_is_the_gradient_of_the_convolution(padding, kernel, stride, known):
    y, values, shape = run(lambda x: layers.conv2d_transpose(x, 4, kernel, stride, padding, use_bias=False),
                           placeholder=None if known else [None, None, None, 3])
    weights = values["conv2d_transpose/kernel"]
    pair = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    # <conv(z), x> is linear in z; its gradient in z is what the layer must give.
    z = np.random.RandomState(2).randn(*y.shape)
    forward = conv_numpy(z, weights, pair(stride), padding, (1, 1))
    assert forward.shape == IMAGES.shape
    np.testing.assert_allclose(np.sum(forward * IMAGES), np.sum(y * z), rtol=1e-9)
    if known:
        assert shape == list(y.shape)


def test_separable_conv2d_is_depthwise_then_pointwise():
    y, values, _ = run(lambda x: layers.separable_conv2d(x, 5, 3, 2, "same", depth_multiplier=2))
    depthwise, pointwise = [values["separable_conv2d/%s_kernel" % name] for name in ("depthwise", "pointwise")]
    assert depthwise.shape == (3, 3, 3, 2) and pointwise.shape == (1, 1, 6, 5)
    full = np.zeros((3, 3, 3, 6))
    for channel, i in itertools.product(range(3), range(2)):
        full[:, :, channel, 2 * channel + i] = depthwise[:, :, channel, i]
    expected = conv_numpy(IMAGES, full, (2, 2), "same", (1, 1)).dot(pointwise[0, 0]) + values["separable_conv2d/bias"]
    np.testing.assert_allclose(y, expected, atol=1e-10)


@pytest.mark.parametrize("x", [IMAGES, IMAGES[:, 0, 0], IMAGES[:, 0]])
def test_dense_multiplies_the_last_axis(x):
    y, values, shape = run(lambda inputs: layers.dense(inputs, 4, tf.tanh), x)
    np.testing.assert_allclose(y, np.tanh(x.dot(values["dense/kernel"]) + values["dense/bias"]), atol=1e-10)
    assert shape == list(x.shape[:-1]) + [4]


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("size,stride", [(2, 2), (3, 1), ((3, 2), (2, 3))])
def test_pooling(padding, size, stride):
    pair = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    size2, stride2 = pair(size), pair(stride)
    highest, _, _ = run(lambda x: layers.max_pooling2d(x, size, stride, padding))
    mean, _, _ = run(lambda x: layers.average_pooling2d(x, size, stride, padding))
    out = [-(-n // s) if padding == "same" else (n - k) // s + 1 for n, k, s in zip(IMAGES.shape[1:3], size2, stride2)]
    before = [max((o - 1) * s + k - n, 0) // 2 if padding == "same" else 0
              for o, s, k, n in zip(out, stride2, size2, IMAGES.shape[1:3])]
    assert highest.shape == mean.shape == (2, out[0], out[1], 3)
    for i, j in itertools.product(range(out[0]), range(out[1])):
        top, left = i * stride2[0] - before[0], j * stride2[1] - before[1]
        patch = IMAGES[:, max(top, 0):top + size2[0], max(left, 0):left + size2[1]]
        np.testing.assert_allclose(highest[:, i, j], patch.max((1, 2)))
        np.testing.assert_allclose(mean[:, i, j], patch.mean((1, 2)))


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("placeholder", [None, [None, 7, 6, 3], [None, None, None, 3]])
def test_flatten(data_format, placeholder):
    y, _, shape = run(lambda x: layers.flatten(x, data_format=data_format), placeholder=placeholder)
    expected = IMAGES if data_format == "channels_last" else np.moveaxis(IMAGES, 1, -1)
    np.testing.assert_array_equal(y, expected.reshape(2, -1))
    known = 126 if placeholder is None or placeholder[1] else None
    assert shape == [2 if placeholder is None else None, known]


def test_flatten_of_an_empty_batch():
    x = np.zeros([0, 4, 3])
    assert run(layers.flatten, x)[0].shape == (0, 12)


def test_regularisers_constraints_and_trainable():
    def layer(x):
        y = layers.conv2d(x, 2, 1, kernel_regularizer=lambda v: tf.reduce_sum(v * 0 + 1), kernel_constraint=tf.nn.relu,
                          kernel_initializer=tf.ones_initializer(), activity_regularizer=lambda a: tf.reduce_sum(a))
        return layers.dense(y, 3, trainable=False)

    layer(tf.ones([2, 1, 2, 3]))
    assert [v.op.name for v in tf.trainable_variables()] == ["conv2d/kernel", "conv2d/bias"]
    assert tf.trainable_variables()[0].constraint is tf.nn.relu
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    # 6 weights; activities 2 x 1 x 2 x 2 values of 3, per example.
    assert sorted(oracles.evaluate(losses)) == [6., 12.]


def test_names_restart_by_kind_and_reuse_shares():
    x = tf.ones([1, 4, 4, 3])
    for _ in range(2):
        layers.conv2d(x, 3, 1, use_bias=False)
    layers.dense(x, 2, name="named")
    layers.dense(x, 2, name="named", reuse=True)
    with pytest.raises(ValueError, match="named/kernel"):
        layers.dense(x, 2, name="named")
    assert [v.op.name for v in tf.global_variables()] == ["conv2d/kernel", "conv2d_1/kernel", "named/kernel", "named/bias"]


def test_variables_have_the_inputs_dtype():
    for dtype in (tf.float16, tf.float64):
        with tf.Graph().as_default():
            y = layers.dense(layers.conv2d(tf.ones([1, 2, 2, 1], dtype), 2, 1), 2)
            assert y.dtype == dtype and all(v.dtype.base_dtype == dtype for v in tf.global_variables())


@pytest.mark.parametrize("layer", [
    lambda: layers.conv2d(tf.ones([2, 3]), 2, 1), lambda: layers.conv2d(tf.ones([1, 2, 2, 1]), 2, 0),
    lambda: layers.conv2d(tf.ones([1, 2, 2, 1]), 2, 1, padding="full"), lambda: layers.dense(tf.ones([3]), 2),
    lambda: layers.conv2d(tf.ones([1, 2, 2, 1]), 2, (1, 2, 3)),
    lambda: layers.max_pooling2d(tf.ones([1, 2, 2, 1]), 2, 2, data_format="NHWC"),
    lambda: layers.conv2d(tf.placeholder(tf.float32, [None, 2, 2, None]), 2, 1),
    lambda: layers.dense(tf.placeholder(tf.float32, [2, None]), 2)])
def test_wrong_arguments_are_refused_in_one_line(layer):
    with pytest.raises(ValueError, match="wanted|must be known") as error:
        layer()
    assert "\n" not in str(error.value)


PAIRS = {
    "conv2d": (lambda m, x: m.conv2d(x, 4, 3, 2, "same", activation=tf.tanh)),
    "dilated": (lambda m, x: m.conv2d(x, 4, 3, 1, "same", dilation_rate=2, use_bias=False, name="named")),
    "conv2d_transpose": (lambda m, x: m.conv2d_transpose(x, 4, (2, 3), (1, 2), "valid")),
    "conv2d_transpose_same": (lambda m, x: m.conv2d_transpose(x, 4, 3, 2, "same")),
    "separable_conv2d": (lambda m, x: m.separable_conv2d(x, 4, 3, 1, "same", depth_multiplier=2)),
    "dense": (lambda m, x: m.dense(m.flatten(x), 5)),
    "dense_rank4": (lambda m, x: m.dense(x, 5)),
    "max_pooling2d": (lambda m, x: m.max_pooling2d(x, 3, 2, "same") * m.conv2d(x, 1, 1, 2)),
    "average_pooling2d": (lambda m, x: m.average_pooling2d(x, (2, 3), (2, 1)) * m.dense(m.flatten(x), 1)[0, 0]),
    "network": (lambda m, x: m.dense(m.flatten(m.batch_normalization(m.conv2d(m.batch_normalization(
        m.conv2d(x, 3, 3), training=True), 3, 3, activation=tf.sin), training=True)), 2)),
}


@pytest.mark.skipif(not oracles.HAS_TF_LAYERS, reason="TensorFlow 2.16 and newer have no tf.layers")
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_equals_tf_layers_and_checkpoints_go_both_ways(name, tmp_path):
    def results(module, restored, saved):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            x = tf.constant(IMAGES, tf.float32)
            y = PAIRS[name](module, x)
            gradients = tf.gradients(tf.reduce_sum(tf.sin(y)), [x] + tf.trainable_variables())
            shapes = [(v.op.name, v.shape.as_list(), v.trainable) for v in tf.global_variables()]
            with oracles.session() as sess:
                oracles.initialize(sess)
                if restored:
                    tf.train.Saver().restore(sess, restored)
                tf.train.Saver().save(sess, saved)
                return shapes, y.shape.as_list(), sess.run([y] + gradients)

    paths = [str(tmp_path / name) for name in ("first", "second")]
    for first, second in ((layers, tf.layers), (tf.layers, layers)):
        expected = results(first, None, paths[0])
        got = results(second, paths[0], paths[1])
        assert got[:2] == expected[:2]
        for value, expected_value in zip(got[2], expected[2]):
            np.testing.assert_allclose(value, expected_value, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not oracles.HAS_TF_LAYERS, reason="TensorFlow 2.16 and newer have no tf.layers")
@pytest.mark.parametrize("name", [n for n in layers.__dict__ if hasattr(tf.layers, n) and not n.startswith("_")]
                         if oracles.HAS_TF_LAYERS else ["none"])
def test_signatures_begin_as_those_of_tf_layers(name):
    import inspect
    ours, theirs = [inspect.signature(getattr(module, name)).parameters for module in (layers, tf.layers)]
    assert list(ours)[:len(theirs)] == list(theirs)
    for key, parameter in theirs.items():
        if key == "training":
            assert ours[key].default is None
        elif not hasattr(parameter.default, "get_config"):
            assert ours[key].default == parameter.default, key
        else:
            assert type(ours[key].default) is type(parameter.default), key
