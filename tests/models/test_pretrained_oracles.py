"""Imported weights give the features that the code base they come from gives: slim's and torchvision's own networks.

torchvision's are in golden/; slim runs here where it is installed (tf.contrib has it on TensorFlow 1.15).
"""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import pretrained, resnet
from tests.models import pretrained_names as names
from tests.models.golden import seeded
from tests.models.test_network_parity import MEAN, STD, Golden
from tests.models.test_resnet import load
from tests.towers.test_slim import slim  # noqa: F401 (a fixture)

SIZE = (41, 49)


def our_stages(cases, units, stem, rgb, dtype=np.float32, width=64):
    """For each (values, mean, std): our stages, and 'stem' after its first norm and ReLU, on images fed as by train.py."""
    first, results = [], []

    def norm(inputs, name):
        result = towers.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-5, name=name)
        first.append(tf.nn.relu(result))
        return result

    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.placeholder(dtype, rgb.shape)
        stages = resnet.resnet(images, units, norm, stem, width)
        for values, mean, std in cases:
            assert {v.op.name for v in tf.global_variables()} == set(values)
            load(session, values)
            results.append(session.run(dict(stages, stem=first[0]), {images: (rgb - np.array(mean)) / np.array(std)}))
    return results


def apart(value, expected):
    """The largest difference, over the expected values' root mean square, at every pixel: [H, W]."""
    assert value.shape == expected.shape
    return abs(value - expected).max(axis=(0, 3)) / np.sqrt(np.mean(np.square(expected)))


@pytest.mark.parametrize("form", ["torchvision", "tensorpack"])
def test_torchvisions_features(form):
    """tensorpack's, too: its ResNet computes the same, from B, G, R; here from torchvision's weights in its layout."""
    units, arrays = (2, 1, 1, 1), {}
    for _, _, (height, width, inputs, outputs), by_format in names.layers(units, "7x7"):
        conv, norm = by_format["torchvision"]
        kernel = seeded.weight(conv + ".weight", (outputs, inputs, height, width))
        if form == "tensorpack":
            kernel = np.moveaxis(kernel[:, ::-1] if inputs == 3 else kernel, (0, 1), (3, 2))
        their_conv, their_norm = by_format[form]
        arrays[their_conv + {"torchvision": ".weight", "tensorpack": "/W"}[form]] = kernel
        for kind, packed in (("weight", "gamma"), ("bias", "beta"), ("running_mean", "mean/EMA"),
                             ("running_var", "variance/EMA")):
            end = {"torchvision": "." + kind, "tensorpack": "/bn/" + packed}[form]
            arrays[their_norm + end] = seeded.weight(norm + "." + kind, (outputs,))
    values, report = pretrained.convert(arrays, form, backbone_shapes(units, "7x7"), MEAN, STD)
    stages, = our_stages([(values, MEAN, STD)], units, "7x7", seeded.rgb(SIZE, 1), np.float64)
    golden = Golden("torchvision.npz", "torchvision")
    assert not report.notes and golden.records
    for name in golden.records:
        golden.check(name, stages[name], 1e-5)


def backbone_shapes(units, stem, width=64):
    return {name: shape for name, shape in names.shapes(units, stem, width).items() if name.startswith("resnet/")}


SLIM_MEAN = (123.68, 116.78, 103.94)
# Units of each block with their strides. slim's own strides stand in the last units; at output stride 8 a stride past it
# becomes dilation for the units after it.
OWN_STRIDES = ((1, 2), (1, 2), (2,), (1,))
OUR_STRIDES = ((1, 1), (2, 2), (2,), (1,))  # the same but for stage 2's, which stands in its own first unit
UNITS = (2, 2, 1, 1)
WIDTHS = {"slim": 64, "slim_beta": 8}  # slim's own stem is 64 wide; DeepLab's is put together here
SlimRun = collections.namedtuple("SlimRun", "prefix stages stem")


def run_slim(modules, form, strides, rgb, path):
    """slim's network with seeded weights on `rgb`: a checkpoint of it, its stages, and its stem's first layer."""
    slim, resnet_v1, resnet_utils = modules  # noqa: F811
    beta, width = form == "slim_beta", WIDTHS[form]
    fed = rgb / 127.5 - 1 if beta else rgb - np.array(SLIM_MEAN)
    blocks = [resnet_utils.Block("block%d" % (k + 1), resnet_v1.bottleneck, [
        {"depth": 4 * width << k, "depth_bottleneck": width << k, "stride": stride} for stride in plan])
        for k, plan in enumerate(strides)]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(fed.astype(np.float32))
        with slim.arg_scope(resnet_utils.resnet_arg_scope()), slim.arg_scope([slim.batch_norm], is_training=False):
            if beta:
                with tf.variable_scope("resnet_v1_50"):
                    stem = resnet_utils.conv2d_same(x, width, 3, stride=2, scope="conv1_1")
                    net = resnet_utils.conv2d_same(stem, width, 3, stride=1, scope="conv1_2")
                    net = resnet_utils.conv2d_same(net, 2 * width, 3, stride=1, scope="conv1_3")
                    net = slim.max_pool2d(net, 3, stride=2, padding="SAME")
                    resnet_utils.stack_blocks_dense(net, blocks, 2, outputs_collections="ends")
                    ends = tf.get_collection("ends")
            else:
                _, points = resnet_v1.resnet_v1(x, blocks, 10, is_training=False, output_stride=8, scope="resnet_v1_50")
                stem = points["resnet_v1_50/conv1"]
                ends = [points["resnet_v1_50/block%d" % k] for k in (1, 2, 3, 4)]
        tf.train.get_or_create_global_step()
        rng, values = np.random.RandomState(0), {}
        for variable in tf.global_variables():
            name, shape = variable.op.name, variable.shape.as_list()
            if name.endswith("weights"):
                values[name] = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:3]))
                if shape[2] == 3 and not beta:
                    values[name] /= 60  # it is fed numbers of that size
            elif name.endswith(("gamma", "moving_variance")):
                values[name] = rng.uniform(.5, 1.5, shape)
            elif variable.dtype.base_dtype.is_floating:
                values[name] = rng.standard_normal(shape) * .3
            else:
                values[name] = 7
        load(session, values)
        version = tf.train.SaverDef.V2 if beta else tf.train.SaverDef.V1
        prefix = tf.train.Saver(write_version=version).save(session, path, write_meta_graph=False)
        stages, stem = session.run([ends, stem])
    return SlimRun(prefix, stages, stem)


def imported(run, form, mean):
    """(values, mean, std) for `our_stages`, and the report."""
    shapes = backbone_shapes(UNITS, pretrained.FORMATS[form].stem, WIDTHS[form])
    values, report = pretrained.convert(pretrained.read(run.prefix), form, shapes, mean, STD)
    return (values, mean, STD), report


@pytest.mark.parametrize("form", ["slim", "slim_beta"])
def test_slims_features(form, slim, tmp_path):  # noqa: F811
    """From a checkpoint that slim's Saver wrote: exact with the format's mean, the scale folded into the stem."""
    rgb, entry = seeded.rgb(SIZE, 1), pretrained.FORMATS[form]
    run = run_slim(slim, form, OUR_STRIDES, rgb, str(tmp_path / "model.ckpt"))
    exact, report = imported(run, form, entry.mean)
    shifted, its_report = imported(run, form, MEAN)
    assert not report.notes and len(its_report.notes) == 1 and "--config.input.mean=" in its_report.notes[0]
    exact, shifted = our_stages([exact, shifted], UNITS, entry.stem, rgb, width=WIDTHS[form])
    for number, expected in enumerate(run.stages, start=1):
        assert apart(exact["stage%d" % number], expected).max() < 1e-4, number
    # Another mean is taken up by the first norm: exactly inside, not where the kernel reaches over the border.
    difference = apart(shifted["stem"], run.stem)
    border = 2 if entry.stem == "7x7" else 1
    assert difference[border:-border, border:-border].max() < 1e-4 < 1e-3 < difference[0].max()


def test_where_slims_own_strides_differ(slim, tmp_path):  # noqa: F811
    """Its stage 1 is ours at every second pixel; the next is another network's, as models/pretrained/formats.py says."""
    rgb, form = seeded.rgb(SIZE, 1), "slim_beta"
    run = run_slim(slim, form, OWN_STRIDES, rgb, str(tmp_path / "model.ckpt"))
    case, _ = imported(run, form, pretrained.FORMATS[form].mean)
    stages, = our_stages([case], UNITS, "deep", rgb, width=WIDTHS[form])
    assert apart(stages["stage1"][:, ::2, ::2], run.stages[0]).max() < 1e-4
    assert apart(stages["stage2"], run.stages[1]).max() > 0.1
