"""Predicts images: coloured overlays and labelId PNGs, at each image's own size.

    python scripts/predict.py --model_dir=runs/synthetic_pspnet --output_dir=predictions a.jpg streets/

Writes NAME_overlay.png (to look at), NAME_labelIds.png (Cityscapes labelIds, one channel: what the official
scorer and the benchmark's server take) and legend.png. A folder is searched with all below it, and its layout
is kept.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf
import tqdm
from absl import flags

from inputs import decoding
from scripts import datasets, inference_flags, network, pictures
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
inference_flags.define()
flags.adopt_module_key_flags(inference_flags)
flags.DEFINE_string("output_dir", None, "Where the pictures go.")
flags.DEFINE_bool("overwrite", False, "Replace pictures that are there already.")


def main(arguments):
    if not arguments:
        raise UsageError("no image named: give image files or folders, after the flags")
    if not FLAGS.output_dir:
        raise UsageError("--output_dir is missing: name the folder for the pictures")
    config, checkpoint, devices = inference_flags.read(FLAGS)
    images = find_images(arguments)
    for _, name in images:
        for output in outputs(name):
            if os.path.exists(output) and not FLAGS.overwrite:
                raise UsageError("{} is there already: use --overwrite or another folder".format(output))
    for path, _ in images:
        decoding.load_image(path)  # a broken image is found before anything is written

    trained = network.TrainedNetwork(config, devices)
    trained.load_checkpoint(checkpoint)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    data_set = datasets.of(config)
    legend = pictures.legend(data_set.colors, data_set.class_names, 640)
    pictures.save(legend, os.path.join(FLAGS.output_dir, "legend.png"))

    decoded = (decoding.load_image(path) for path, _ in images)
    predictions = zip(images, trained.predictor.labels_all(trained.session, decoded))
    for (path, name), prediction in tqdm.tqdm(
        predictions, total=len(images), unit="image", disable=not sys.stderr.isatty()
    ):
        overlay, label_ids = outputs(name)
        os.makedirs(os.path.dirname(overlay), exist_ok=True)
        pictures.save(pictures.overlay(decoding.load_image(path), prediction, data_set.colors), overlay)
        pictures.save(data_set.file_values[prediction], label_ids)
    print("{} image(s): overlays, labelIds and legend.png are in {}".format(len(images), FLAGS.output_dir))


def find_images(arguments):
    """Pairs (path, name for the outputs); a folder's images keep their place in it. UsageError on a clash."""
    images, taken = [], {}
    for argument in arguments:
        top = argument if os.path.isdir(argument) else os.path.dirname(argument)
        for path in decoding.list_images(argument):
            name = os.path.splitext(os.path.relpath(path, top or "."))[0]
            if name in taken:
                raise UsageError(
                    "{} and {} would be written to the same files: rename one".format(taken[name], path)
                )
            taken[name] = path
            images.append((path, name))
    return images


def outputs(name):
    return [os.path.join(FLAGS.output_dir, name + suffix) for suffix in ("_overlay.png", "_labelIds.png")]


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main, positional=True)
