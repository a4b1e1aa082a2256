"""The network, layer by layer, against a PyTorch computation of the same small PSPNet from the same weights.

PyTorch is not needed: what it computed is in golden/, with the script that wrote it.
"""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import pretrained, pspnet, resnet
from tests.models.golden import seeded
from tests.models.test_pspnet import config
from tests.models.test_resnet import load

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
BINS, CLASSES = (1, 2, 3, 6), 3
OURS = pretrained.FORMATS["semseg"].variable  # from PyTorch's names to ours

STEMS = ("deep", "7x7")
SIZES = ((41, 41), (57, 49))  # features of 6x6, which all bins divide, and of 8x7


class Golden(object):
    """The records of one case: name to (sample, signed sums)."""

    def __init__(self, file, case):
        with np.load(os.path.join(GOLDEN, file), allow_pickle=False) as stored:
            names, samples, sums = (stored[case + "/" + kind] for kind in ("names", "samples", "sums"))
        self.records = {str(name): (sample, total) for name, sample, total in zip(names, samples, sums)}

    def names(self, start):
        """What follows `start` in the names that start so."""
        return [name[len(start):] for name in self.records if name.startswith(start)]

    def check(self, name, value, tolerance):
        """`tolerance` is relative to the values' size; of the sums, to the root of how many they are too."""
        sample, total = self.records[name]
        found, found_total = seeded.digest(name, value)
        size = np.sqrt(np.mean(np.square(np.asarray(value, np.float64))))
        assert size > 1e-5, name  # the comparison is of something
        np.testing.assert_allclose(found, sample, rtol=0, atol=tolerance * max(size, 1), err_msg=name)
        np.testing.assert_allclose(found_total, total, rtol=0, err_msg=name,
                                   atol=tolerance * max(size, 1) * np.sqrt(np.size(value)))


class Network(object):
    """Our network with the golden one's weights: `layers` has the input and output of every batch norm, by its scope."""

    def __init__(self, monkeypatch, stem, size, training, dtype=np.float64):
        whole, normalisation, self.layers = resnet.resnet, pspnet.normalisation, {}
        monkeypatch.setattr(pspnet.resnet, "resnet", lambda images, name, norm, stem: whole(
            images, (2, 1, 1, 2), norm, stem, width=2))
        monkeypatch.setattr(pspnet, "normalisation", lambda config: self._recorded(normalisation(config)))
        images = ((seeded.rgb(size, 2) - MEAN) / STD).astype(dtype)
        settings = config(backbone="resnet50", stem=stem, norm="sync", pyramid_channels=4, head_channels=6, aux_channels=3)
        self.outputs = towers.build(
            lambda x: pspnet.pspnet(x, settings, CLASSES), [(tf.constant(images),)], ["/cpu:0"], training=training)[0]

    def _recorded(self, norm):
        def recording(inputs, name):
            result = norm(inputs, name=name)
            self.layers[tf.get_variable_scope().name + "/" + name] = (inputs, result)
            return result

        return recording

    def load(self, session, theirs):
        """Gives every variable the weight of its PyTorch name; `theirs` from our names to those."""
        values = {}
        for variable in tf.global_variables():
            shape = variable.shape.as_list()
            name = theirs[variable.op.name]
            if len(shape) == 4:
                values[variable.op.name] = seeded.weight(name, tuple(np.take(shape, (3, 2, 0, 1)))).transpose(2, 3, 1, 0)
            else:
                values[variable.op.name] = seeded.weight(name, tuple(shape))
        load(session, values)


def their_names(stem):
    """Our names to PyTorch's, of the small network."""
    modules = {"deep": [("layer0.0", 0), ("layer0.1", 1), ("layer0.3", 0), ("layer0.4", 1), ("layer0.6", 0), ("layer0.7", 1)],
               "7x7": [("layer0.0", 0), ("layer0.1", 1)]}[stem]
    for layer, units in zip((1, 2, 3, 4), (2, 1, 1, 2)):
        for unit in range(units):
            start = "layer{}.{}.".format(layer, unit)
            modules += [(start + kind + str(k), kind == "bn") for kind in ("conv", "bn") for k in (1, 2, 3)]
            modules += [(start + "downsample.0", 0), (start + "downsample.1", 1)] if unit == 0 else []
    for start in ["ppm.features.{}.".format(k) for k in range(4)]:
        modules += [(start + "1", 0), (start + "2", 1)]
    for start in ("cls.", "aux."):
        modules += [(start + "0", 0), (start + "1", 1), (start + "4", 0)]
    names = []
    for module, is_norm in modules:
        kinds = ("weight", "bias", "running_mean", "running_var") if is_norm else ("weight",)
        kinds += ("bias",) if module in ("cls.4", "aux.4") else ()
        names += [module + "." + kind for kind in kinds]
    return {OURS(name, BINS): name for name in names}


CASES = [(stem, size, False) for stem in STEMS for size in SIZES] + [("deep", SIZES[1], True), ("7x7", SIZES[0], True)]


@pytest.mark.parametrize("stem, size, training", CASES, ids=[
    "{} {}x{} {}".format(stem, size[0], size[1], "training" if training else "inference") for stem, size, training in CASES])
def test_every_layer_and_the_logits_are_pytorchs(monkeypatch, stem, size, training):
    golden = Golden("pspnet.npz", "{} {}x{} {}".format(stem, size[0], size[1], "training" if training else "inference"))
    network, theirs = Network(monkeypatch, stem, size, training), their_names(stem)
    fetched = {"layers": network.layers, "logits": network.outputs["logits"]}
    if training:
        fetched["aux_logits"] = network.outputs["aux_logits"]
        loss = sum(tf.reduce_sum(fetched[name] * seeded.signs(name + " loss", fetched[name].shape.as_list()))
                   for name in ("logits", "aux_logits"))
        fetched["gradients"] = {v.op.name: g for v, g in zip(
            tf.trainable_variables(), tf.gradients(loss, tf.trainable_variables()))}
    with tf.Session() as session:
        network.load(session, theirs)
        results, _ = session.run([fetched, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
        after = session.run({v.op.name: v for v in tf.global_variables() if "/moving_" in v.op.name})
    scopes = {theirs[scope + "/gamma"].rsplit(".", 1)[0]: value for scope, value in results["layers"].items()}
    assert {name + end for name in scopes for end in (" in", " out")} == {
        name for name in golden.records if name.endswith((" in", " out"))}
    for name, (before_norm, after_norm) in scopes.items():
        golden.check(name + " in", before_norm, 1e-6)
        golden.check(name + " out", after_norm, 1e-6)
    assert results["logits"].shape == (2,) + size + (CLASSES,)
    golden.check("logits", results["logits"], 1e-6)
    if not training:
        return
    golden.check("aux_logits", results["aux_logits"], 1e-6)
    assert {theirs[name] for name in results["gradients"]} == set(golden.names("gradient "))
    for name, gradient in results["gradients"].items():
        golden.check("gradient " + theirs[name], gradient, 1e-6)
    assert {theirs[name] for name in after} == set(golden.names("after "))
    for name, value in after.items():
        golden.check("after " + theirs[name], value, 1e-6)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_in_float32_the_logits_are_pytorchs_to_1e_4(monkeypatch, training):
    golden = Golden("pspnet.npz", "deep 57x49 {}".format("training" if training else "inference"))
    network = Network(monkeypatch, "deep", (57, 49), training, np.float32)
    with tf.Session() as session:
        network.load(session, their_names("deep"))
        logits = session.run(network.outputs["logits"])
    assert logits.dtype == np.float32
    np.testing.assert_allclose(seeded.digest("logits", logits)[0], golden.records["logits"][0], rtol=0, atol=1e-4)
