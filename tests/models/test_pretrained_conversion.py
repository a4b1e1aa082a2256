"""Every format's real names at ResNet-101's full size come back as our variables; whatever does not fit is named."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import pretrained, pspnet
from tests.models import pretrained_names as names
from tests.models.test_pspnet import config

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
SMALL = (1, 1, 1, 1)


def save(path, arrays, container):
    """Writes arrays as a .npz, .safetensors, or a TensorFlow checkpoint ('ckpt', or 'ckpt1', the first format)."""
    if container == "npz":
        np.savez(path, **arrays)
    elif container == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, path)
    else:
        stored = sorted(arrays)
        with tf.Graph().as_default(), tf.Session() as session:
            fed = {tf.placeholder(arrays[n].dtype, arrays[n].shape): arrays[n] for n in stored}
            if container == "ckpt":
                op = tf.raw_ops.SaveV2(
                    prefix=path, tensor_names=stored, shape_and_slices=[""] * len(stored), tensors=list(fed))
            else:
                op = tf.raw_ops.Save(filename=path, tensor_names=stored, data=list(fed))
            session.run(op, fed)
    return path


def own_input(form):
    """The input that a format's network was trained on: no part of it is left to fold into the stem."""
    entry = pretrained.FORMATS[form]
    return entry.mean, entry.std


@pytest.mark.parametrize("form, container", [("slim", "ckpt1"), ("slim_beta", "ckpt"), ("torchvision", "safetensors"),
                                             ("semseg_init", "npz"), ("semseg", "ckpt"), ("tensorpack", "npz")])
def test_a_whole_resnet101_comes_back_under_our_names(form, container, tmp_path):
    theirs, ours = names.weights(form, names.UNITS["resnet101"])
    path = save(str(tmp_path / "weights.npz"), theirs, container)
    shapes = names.shapes(names.UNITS["resnet101"], names.STEM[form])
    values, report = pretrained.convert(pretrained.read(path), form, shapes, *own_input(form))
    assert set(values) == set(ours)
    for name, value in values.items():
        assert value.dtype == np.float32 and value.flags.c_contiguous
        np.testing.assert_array_equal(value, ours[name], err_msg=name)
    told = report.matched + report.converted + report.skipped
    assert sorted(item[0] for item in told) == sorted(theirs)  # every name of theirs, once
    given = [item[1] for item in report.matched + report.converted]
    assert sorted(given + [variable for variable, _ in report.initial]) == sorted(shapes)  # every variable of ours, once
    head = [variable for variable in shapes if variable.startswith("pspnet/")]
    assert len(report.initial) == (0 if form == "semseg" else len(head))
    os.remove(path) if os.path.exists(path) else None


def test_the_names_of_these_tests_are_the_networks():
    """The table that the other tests use, against the graph of the network itself."""
    settings = config(backbone="resnet50", pyramid_channels=512, head_channels=512, aux_channels=256)
    towers.build(lambda x: pspnet.pspnet(x, settings, 19), [(tf.zeros([1, 49, 49, 3]),)], ["/cpu:0"], training=True)
    found = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
    assert found == names.shapes(names.UNITS["resnet50"], "deep")


def small(form, **changes):
    theirs, ours = names.weights(form, SMALL, width=2, classes=3, pyramid=2, head=4, aux=3)
    theirs.update(changes)
    return theirs, ours, names.shapes(SMALL, names.STEM[form], width=2, classes=3, pyramid=2, head=4, aux=3)


def convert(form, theirs, shapes, **options):
    mean, std = own_input(form)
    return pretrained.convert(theirs, form, shapes, mean, std, **options)


KERNEL, SCOPE = "module.layer2.0.conv2.weight", "resnet/stage2/unit1/conv2/kernel"
FAULTS = {
    "unknown": ({"module.extra.weight": np.zeros(3, np.float32)}, "module.extra.weight", "unmatched"),
    "misshapen": ({KERNEL: np.zeros([4, 4, 1, 1], np.float32)}, KERNEL,
                  r"misshapen: \[4, 4, 1, 1\] \(in our layout \[1, 1, 4, 4\]\) in the file, \[3, 3, 4, 4\] in the network"),
    "of another rank": ({KERNEL: np.zeros([4, 4], np.float32)}, KERNEL, r"misshapen: \[4, 4\] in the file"),
    "deeper than the network": ({"module.layer2.1.conv1.weight": np.zeros([4, 16, 1, 1], np.float32)},
                                "module.layer2.1.conv1.weight", "missing in the network.*resnet/stage2/unit2/conv1/kernel"),
    "not finite": ({KERNEL: np.full([4, 4, 3, 3], np.nan, np.float32)}, KERNEL, "not finite"),
    "too large for float32": ({KERNEL: np.full([4, 4, 3, 3], 1e300)}, KERNEL, "not finite"),
    "whole numbers": ({KERNEL: np.zeros([4, 4, 3, 3], np.int8)}, KERNEL, "int8"),
    "a negative variance": ({"module.layer0.1.running_var": np.float32([1, -1])}, "module.layer0.1.running_var", "below 0"),
    "twice there": ({KERNEL.replace("module.", ""): np.zeros([4, 4, 3, 3], np.float32)}, KERNEL, "both it and layer2.0.conv2"),
    "missing": ({KERNEL: None}, SCOPE, "missing in the file"),
    "a bias before a norm": ({"module.layer2.0.conv2.bias": np.zeros(4, np.float32)}, "module.layer2.0.conv2.bias",
                             "unmatched"),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", sorted(FAULTS))
def test_whatever_does_not_fit_is_refused_by_name_and_can_be_allowed(case):
    changes, name, message = FAULTS[case]
    theirs, ours, shapes = small("semseg", **changes)
    theirs = {n: a for n, a in theirs.items() if a is not None}
    with pytest.raises(pretrained.WeightsMismatch, match="1 name does not fit: {}: .*{}.*--allow".format(
            name.replace(".", r"\."), message)) as error:
        convert("semseg", theirs, shapes)
    assert "\n" not in str(error.value) and name in error.value.report.summary()
    values, report = convert("semseg", theirs, shapes, allow=[name])
    assert [item[0] for item in report.allowed] == [name] and not report.problems
    for variable, value in values.items():
        if variable != SCOPE:
            np.testing.assert_array_equal(value, ours[variable])
    assert set(values) == set(ours) - {variable for variable, _ in report.initial}


def test_patterns_allow_by_our_names_too_and_those_that_allow_nothing_are_told():
    theirs, ours, shapes = small("semseg")
    shapes = dict(shapes, **{"pspnet/head/logits/kernel": [1, 1, 4, 7], "pspnet/head/logits/bias": [7]})
    with pytest.raises(pretrained.WeightsMismatch, match="2 names do not fit: module.cls.4.bias"):
        convert("semseg", theirs, shapes)
    values, report = convert("semseg", theirs, shapes, allow=["pspnet/head/logits/*", "nothing*"])
    assert set(ours) - set(values) == {"pspnet/head/logits/kernel", "pspnet/head/logits/bias"}
    assert any("nothing*" in note for note in report.notes) and len(report.notes) == 1


@pytest.mark.parametrize("form", names.FORMATS)
def test_weights_of_another_format_are_recognised(form):
    theirs, _, _ = small(form)
    other = "slim" if form != "slim" else "torchvision"
    with pytest.raises(pretrained.WeightsMismatch, match=r"are of format {}, \d+ of {}$".format(form, other)):
        convert(other, theirs, small(other)[2])


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_precisions_become_float32(dtype):
    theirs, ours, shapes = small("torchvision")
    dtype = tf.as_dtype(dtype).as_numpy_dtype
    theirs = {name: array.astype(dtype) if array.dtype.kind == "f" else array for name, array in theirs.items()}
    values, _ = convert("torchvision", theirs, shapes)
    for name, value in values.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, ours[name].astype(dtype).astype(np.float32))


def test_prefixes_scopes_and_output_numbers_do_not_matter(tmp_path):
    theirs, ours, shapes = small("semseg")
    plain = {name.replace("module.", ""): array for name, array in theirs.items()}
    assert set(convert("semseg", plain, shapes)[0]) == set(ours)
    theirs, ours, shapes = small("slim")
    moved = {"mine/" + name + ":0": array for name, array in theirs.items()}
    np.savez(str(tmp_path / "x.npz"), **moved)
    assert set(convert("slim", pretrained.read(str(tmp_path / "x.npz")), shapes)[0]) == set(ours)


def test_another_epsilon_is_told():
    theirs, _, shapes = small("torchvision")
    assert "epsilon" in convert("torchvision", theirs, shapes, norm_epsilon=1e-3)[1].summary()
    assert "epsilon" not in convert("torchvision", theirs, shapes)[1].summary()


def test_a_run_of_ones_own_with_other_classes_is_taken_but_for_what_is_allowed():
    _, ours, shapes = small("semseg")
    stored = {name: value for name, value in ours.items() if "/aux/" not in name}
    stored.update({name + "/Momentum": value for name, value in stored.items() if "/moving_" not in name})
    stored.update({"global_step": np.array(7), "loss_scale": np.float32(2), "resnet/extra": np.zeros(2, np.float32)})
    shapes = dict(shapes, **{"pspnet/head/logits/kernel": [1, 1, 4, 7], "pspnet/head/logits/bias": [7]})
    with pytest.raises(pretrained.WeightsMismatch, match="10 names do not fit.*pspnet/aux/bn/beta: missing in the file"):
        pretrained.convert(stored, "towers", shapes, MEAN, STD)
    allow = ["pspnet/aux/*", "*/logits/*", "resnet/extra"]
    values, report = pretrained.convert(stored, "towers", shapes, MEAN, STD, allow=allow)
    assert not report.converted and {name for name, _ in report.initial} == set(shapes) - set(values)
    assert set(values) == {name for name in ours if "/aux/" not in name and "/logits/" not in name}
    for name, value in values.items():
        np.testing.assert_array_equal(value, ours[name])
    # What it was imported for stays known: the same numbers, fed with another scale.
    stored.update({"imported/input_mean": np.float32(MEAN), "imported/input_std": np.float32(STD)})
    scaled, report = pretrained.convert(stored, "towers", shapes, MEAN, np.multiply(STD, 2), allow=allow)
    np.testing.assert_allclose(scaled["resnet/stem/conv1/kernel"], 2 * ours["resnet/stem/conv1/kernel"], rtol=1e-6)
    assert [how for _, _, how in report.converted] == ["input scale"]
