"""Predicts images: coloured overlays and labelId PNGs, at each image's own size.

    python scripts/predict.py --model_dir=runs/synthetic_pspnet --output_dir=predictions a.jpg streets/
    python scripts/predict.py --model_dir=runs/cityscapes_pspnet50 --submission --output_dir=submission \
        --data_dir=/data/cityscapes --split=test

Writes NAME_overlay.png (to look at), NAME_labelIds.png (Cityscapes labelIds, one channel: what the official
scorer and the benchmark's server take) and legend.png. A folder is searched with all below it, and its layout
is kept. Images are turned as their EXIF orientation says, and so are the results.

With --submission only the label files are written, in one folder, under names that the benchmark's server takes:
for the images of a split (no labels needed) or those that are named. Pixels stay as they are stored.

All images are read through before the network is built. One that cannot be read stops the program with nothing
written; with --on_bad_image=skip the others are predicted, those left out are listed at the end, and the exit
code is 1.
"""

import concurrent.futures
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import tqdm
from absl import flags

from inputs import labels, photographs
from inputs.examples import DataError
from scripts import commandline, datasets, inference_flags, pictures, submission
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
inference_flags.define()
flags.DEFINE_string("output_dir", None, "Where the pictures go.")
flags.DEFINE_bool("overwrite", False, "Replace pictures that are there already.")
flags.DEFINE_enum("on_bad_image", "stop", ["stop", "skip"], "What to do about an image that cannot be read.")
flags.DEFINE_bool("submission", False, "Write what the Cityscapes benchmark takes, and nothing else.")
flags.DEFINE_string("data_dir", None, "With --submission: folder that holds leftImg8bit, in place of image names.")
flags.DEFINE_string("split", "test", "With --submission and --data_dir: the split to predict.")


def main(arguments):
    if not FLAGS.output_dir:
        raise UsageError("--output_dir is missing: name the folder for the pictures")
    images = find_images(arguments)
    for _, name in images:
        for output in outputs(name):
            if os.path.exists(output) and not FLAGS.overwrite:
                raise UsageError("{} is there already: use --overwrite or another folder".format(output))
    images, bad = readable(images)

    commandline.quiet_tensorflow()  # here, not above: it takes seconds, and what is wrong with the images is known
    import tensorflow.compat.v1 as tf

    from scripts import network

    tf.disable_eager_execution()
    config, checkpoint, devices = inference_flags.read(FLAGS)
    data_set = datasets.of(config)
    if FLAGS.submission and data_set.file_values is not labels.train_id_to_label_id:
        raise UsageError("--submission: {} was trained on {}, whose classes the Cityscapes benchmark does not score".format(
            FLAGS.model_dir, config.dataset))
    trained = network.TrainedNetwork(config, devices)
    trained.load_checkpoint(checkpoint)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    if not FLAGS.submission:
        legend = pictures.legend(data_set.colors, data_set.class_names, 640)
        pictures.save(legend, os.path.join(FLAGS.output_dir, "legend.png"))

    decoded = (load(path) for path, _ in images)
    predictions = zip(images, trained.predictor.labels_all(trained.session, decoded))
    for (path, name), prediction in tqdm.tqdm(
        predictions, total=len(images), unit="image", disable=not sys.stderr.isatty()
    ):
        *overlay, label_ids = outputs(name)
        os.makedirs(os.path.dirname(label_ids), exist_ok=True)
        for picture in overlay:
            pictures.save(pictures.overlay(load(path), prediction, data_set.colors), picture)
        pictures.save(data_set.file_values[prediction], label_ids)
    print("{} image(s): {} are in {}".format(
        len(images), "labelIds" if FLAGS.submission else "overlays, labelIds and legend.png", FLAGS.output_dir))
    if bad:
        print("{} image(s) skipped:".format(len(bad)))
        print("\n".join("  {}".format(error) for error in bad))
        sys.exit(1)


def find_images(arguments):
    """Pairs (path, name for the outputs); a folder's images keep their place in it. UsageError on a clash."""
    if FLAGS.data_dir and not FLAGS.submission:
        raise UsageError("--data_dir goes with --submission; otherwise name image files or folders, after the flags")
    if FLAGS.data_dir and arguments:
        raise UsageError("--data_dir and {!r}: give one of them, the split or the images".format(arguments[0]))
    if FLAGS.data_dir:
        return [(path, name) for name, path in submission.images_of_split(FLAGS.data_dir, FLAGS.split).items()]
    if not arguments:
        raise UsageError("no image named: give image files or folders, after the flags")
    images, taken = [], {}
    for argument in arguments:
        top = argument if os.path.isdir(argument) else os.path.dirname(argument)
        for path in photographs.list_images(argument):
            name = os.path.splitext(os.path.relpath(path, top or "."))[0]
            name = submission.image_name(path) if FLAGS.submission else name
            if name in taken and os.path.samefile(taken[name], path):
                continue  # named twice, by itself and by its folder perhaps
            if name in taken:
                raise UsageError(
                    "{} and {} would be written to the same files: rename one".format(taken[name], path)
                )
            taken[name] = path
            images.append((path, name))
    return images


def readable(images):
    """The images that can be read, and the errors of the others; with --on_bad_image=stop the first is raised."""
    def error(image):
        try:
            load(image[0])
        except DataError as found:
            return found
        return None

    good, bad = [], []
    pool = concurrent.futures.ThreadPoolExecutor(4)
    try:
        for image, found in zip(images, pool.map(error, images)):
            if found and FLAGS.on_bad_image == "stop":
                raise found
            bad.append(found) if found else good.append(image)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if not good:
        raise DataError("none of {} image(s) can be read: {}".format(len(images), bad[0]))
    return good, bad


def load(path):
    """Its pixels; the right way up, but as stored where a labelling of the stored pixels is wanted."""
    return photographs.load_image(path, upright=not FLAGS.submission)


def outputs(name):
    suffixes = [submission.SUFFIX] if FLAGS.submission else ["_overlay.png", "_labelIds.png"]
    return [os.path.join(FLAGS.output_dir, name + suffix) for suffix in suffixes]


if __name__ == "__main__":
    commandline.run(main, positional=True)
