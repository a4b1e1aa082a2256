"""Parameters and multiply-adds: equal to a count by hand, to what is published, and to what TensorFlow's ops do."""

import json
import math

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import cifar10_resnet  # noqa: E402
from models import resnet  # noqa: E402
from scripts import classifier, layer_costs  # noqa: E402
from tests.scripts.command import SMALL, run, succeeded  # noqa: E402


def costs_of(model_fn, *shape, training=False):
    with tf.Graph().as_default() as graph:
        towers.build(model_fn, [tf.zeros(shape)], ["/cpu:0"], training=training)
        return {cost.name: cost for cost in layer_costs.layer_costs(graph, "tower_0/")}


def test_a_small_network_equals_the_count_by_hand():
    def model_fn(x):  # [1, 9, 11, 3]
        x = towers.layers.conv2d(x, 4, 3, padding="same", use_bias=False, name="a")
        x = towers.sync_bn(x, name="bn")
        x = towers.layers.conv2d(x, 5, (1, 2), strides=2, name="b")  # valid: to [1, 5, 5, 5]
        x = towers.layers.conv2d(x, 6, 3, padding="same", dilation_rate=2, use_bias=False, name="dilated")
        x = towers.layers.separable_conv2d(x, 7, 3, padding="same", use_bias=False, name="separable")
        x = towers.layers.conv2d_transpose(x, 2, 2, strides=2, use_bias=False, name="up")  # to [1, 10, 10, 2]
        return towers.layers.dense(tf.reshape(x, [1, 200]), 8, name="dense")

    found = costs_of(model_fn, 1, 9, 11, 3)
    parameters = {name: cost.parameters for name, cost in found.items()}
    assert parameters == {"a": 3 * 3 * 3 * 4, "bn": 8, "b": 1 * 2 * 4 * 5 + 5, "dilated": 9 * 5 * 6,
                          "separable": 9 * 6 + 6 * 7, "up": 2 * 2 * 2 * 7, "dense": 200 * 8 + 8}
    macs = {name: cost.macs for name, cost in found.items()}
    assert macs == {"a": 9 * 11 * 9 * 3 * 4, "bn": 0, "b": 5 * 5 * 2 * 4 * 5, "dilated": 25 * 9 * 5 * 6,
                    "separable": 25 * (9 * 6 + 6 * 7), "up": 25 * 4 * 7 * 2, "dense": 200 * 8}
    assert found["bn"].state == 8 and found["dilated"].output == [1, 5, 5, 6]
    for name, cost in found.items():  # the image has no gradient; all else has two: by its input and by its kernel
        assert cost.backward == (1 if name == "a" else 2) * cost.macs, name


def test_resnet_50_without_dilation_has_its_published_size_and_cost(monkeypatch):
    # torchvision's model card of ResNet-50: 25,557,032 parameters, 4.09 GFLOPS (multiply-adds) at 224x224.
    monkeypatch.setattr(resnet, "STRIDES", (1, 2, 2, 2))
    monkeypatch.setattr(resnet, "DILATIONS", (1, 1, 1, 1))

    def model_fn(x):
        stages = resnet.resnet(x, "resnet50", towers.layers.batch_normalization, stem="7x7")
        return towers.layers.dense(tf.reduce_mean(stages["stage4"], axis=[1, 2]), 1000, name="classes")

    total = layer_costs.total(costs_of(model_fn, 1, 224, 224, 3).values())
    assert total.parameters == 25557032
    assert total.macs / 1e9 == pytest.approx(4.09, abs=0.005)


def test_the_backward_pass_is_what_its_ops_multiply():
    def model_fn(x):
        for k, dilation in enumerate((1, 1, 2)):
            x = tf.nn.tanh(resnet.conv2d(x, 8, 3, "conv%d" % k, dilation=dilation))
        return tf.reduce_sum(tf.matmul(tf.ones([8, 3]), x[0], transpose_a=True))

    found = costs_of(model_fn, 1, 8, 8, 3, training=True)
    with tf.Graph().as_default() as graph:
        image = tf.zeros([1, 8, 8, 3])
        towers.build_train_step(model_fn, [image], tf.train.GradientDescentOptimizer(1.0), ["/cpu:0"])
        counted = 0
        for op in graph.get_operations():
            if op.type == "Conv2DBackpropFilter":
                counted += math.prod(op.outputs[0].shape.as_list()) * math.prod(op.inputs[2].shape.as_list()[:3])
            elif op.type == "Conv2DBackpropInput" and "conv0" not in op.name:  # there it is made, but nothing reads it
                counted += math.prod(op.inputs[1].shape.as_list()) * math.prod(op.inputs[2].shape.as_list()[:3])
    without_weights = found.pop(next(name for name in found if name.endswith(layer_costs.WITHOUT_WEIGHTS)))
    assert without_weights.backward == without_weights.macs == 8 * 3 * 8 * 8
    assert sum(cost.backward for cost in found.values()) == counted


def test_a_cifar_network_has_the_cost_of_its_layers():
    config = cifar10_resnet.get_config()
    total = layer_costs.total(costs_of(lambda x: classifier.logits(x, config), 1, 32, 32, 3).values())
    # He et al. (2016), ResNet-20: 16 channels at 32x32 cost as much a layer as 32 at 16x16 and 64 at 8x8; half where
    # the channels double.
    layer = 1024 * 9 * 16 * 16
    assert total.macs == 1024 * 27 * 16 + 16 * layer + 2 * layer // 2 + 64 * 10 and total.parameters == 269722


def test_the_script_prints_layers_and_totals(tmp_path):
    small = [argument for argument in SMALL if not argument.startswith(("--max_steps", "--device_type"))]
    output = str(tmp_path / "stats.json")
    text = succeeded(run("model_stats", *small, "--input_size=65,97", "--training", "--output=" + output))
    with open(output) as file:
        content = json.load(file)
    layers = {layer["name"]: layer for layer in content["layers"]}
    assert layers["resnet/stem/conv1"]["macs"] == 33 * 49 * 27 * 4 and layers["pspnet/aux/logits"]["parameters"] == 8 * 19 + 19
    assert content["total"]["macs"] == sum(layer["macs"] for layer in layers.values())
    assert "65x97: {:,} trainable parameters".format(content["total"]["parameters"]) in text
    assert "{:.2f} MFLOPs, forward".format(2 * content["total"]["macs"] / 1e6) in text
