"""A trained network as a SavedModel that plain TensorFlow loads: raw images in, labels and probabilities out.

Inside are the preprocessing (resizing, normalisation, padding), the network with batch norm folded into its convolutions
and all weights as constants, softmax and argmax; see `models.whole_image` for how an image is seen. Signatures:

    serving_default   images [N, H, W, 3] uint8 RGB              labels [N, H, W] int32, probabilities [N, H, W, C] float32
    float_images      images [N, H, W, 3] float32 RGB, 0 to 255  the same

`assets.extra/model.json` in its folder holds the class names and what was exported.
"""

import functools
import json
import os
import shutil

import numpy as np
import tensorflow.compat.v1 as tf

from models import folding, pspnet, whole_image
from scripts import network

OUTPUTS = ("labels", "probabilities")
TOLERANCE = 1e-4  # by which the probabilities of what is written may differ from the trained network's
TAGS = [tf.saved_model.tag_constants.SERVING]


class WholeImageNetwork(network.TrainedNetwork):
    """The network in one pass over whole images: what is exported. Load weights, then `frozen` or `save_variables`.

    Args:
        config: the configuration it was trained with.
        size: (height, width) of the images it will take; None for any, where the network can.
    """

    def __init__(self, config, size=None):
        model = config.model
        if model.pyramid == "average":  # its windows are a share of a known size
            size = size or config.eval.crop_size
            fit = functools.partial(pspnet.fitting_size, align_corners=model.align_corners, pyramid=model.pyramid,
                                    pyramid_bins=model.pyramid_bins)
        else:
            fit = whole_image.multiple(8, 1 if model.align_corners else 0)
        self.size = size
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(0)
            images = tf.placeholder(tf.uint8, [None] + list(size or (None, None)) + [3], name="images")
            found = whole_image.predict(
                lambda x: pspnet.pspnet(x, model, config.num_classes)["logits"], tf.cast(images, tf.float32, name="pixels"),
                config.input.mean, config.input.std, fit, config.input.resize, config.eval.long_side)
            for name in OUTPUTS:
                tf.identity(found[name], name=name)
            self.variables = tf.global_variables()
        self.session = tf.Session(graph=self.graph, config=session_config())

    def frozen(self, fold=True):
        """A `folding.Folded`: the graph with its weights as constants, batch norm folded or not."""
        graph_def = folding.freeze(self.session, OUTPUTS)
        if not fold:
            return folding.Folded(graph_def, 0, sum(node.op.startswith("FusedBatchNorm") for node in graph_def.node))
        return folding.fold(graph_def, OUTPUTS)

    def save_variables(self, path):
        """Writes it unfolded, with its variables as they are: what a plain export would be, to compare with."""
        _save(self.session, path)

    def probabilities(self, images):
        return self.session.run("probabilities:0", {"images:0": images})


def write(path, graph_def, description, check):
    """Writes a SavedModel of a frozen graph, whole or not at all, in place of one that is there.

    Args:
        path: its folder.
        graph_def: has the ops `images`, `pixels`, `labels` and `probabilities`.
        description: a dict for model.json.
        check: called with the folder before it is put in place; may raise.
    """
    partial = path.rstrip(os.sep) + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tf.Graph().as_default(), tf.Session(config=session_config()) as session:
            tf.import_graph_def(graph_def, name="")
            _save(session, partial)
        extra = os.path.join(partial, "assets.extra")
        os.makedirs(extra)
        with open(os.path.join(extra, "model.json"), "w") as file:
            json.dump(description, file, indent=2)
            file.write("\n")
        check(partial)
        _put_in_place(partial, path.rstrip(os.sep))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class Loaded:
    """A SavedModel in a graph and a session of its own."""

    def __init__(self, path):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.session = tf.Session(config=session_config())
            tf.saved_model.loader.load(self.session, TAGS, path)

    def run(self, name, images):
        return self.session.run(name + ":0", {"images:0": images})

    def close(self):
        self.session.close()


def largest_difference(network_, path, images):
    """Of the probabilities of a written SavedModel from those of the network as trained."""
    loaded = Loaded(path)
    try:
        return float(np.abs(loaded.run("probabilities", images) - network_.probabilities(images)).max())
    finally:
        loaded.close()


def session_config():
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    return config


def _save(session, path):
    graph = session.graph
    with graph.as_default():
        outputs = {name: graph.get_tensor_by_name(name + ":0") for name in OUTPUTS}
        # A signature's input may be any tensor: behind the cast, the float one is the same graph.
        signatures = {
            signature: tf.saved_model.signature_def_utils.predict_signature_def(
                {"images": graph.get_tensor_by_name(tensor)}, outputs)
            for signature, tensor in (("serving_default", "images:0"), ("float_images", "pixels:0"))
        }
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, TAGS, signature_def_map=signatures, clear_devices=True)
        builder.save()


def _put_in_place(new, path):
    """A folder cannot be replaced in one step: the old one steps aside first, and is deleted last."""
    old = path + ".old"
    shutil.rmtree(old, ignore_errors=True)
    if os.path.exists(path):
        os.rename(path, old)
    os.rename(new, path)
    shutil.rmtree(old, ignore_errors=True)
