"""Scores every image of a split by itself: a table with the worst first, and a picture sheet of these.

    python scripts/worst_images.py --model_dir=runs/synthetic_pspnet
    python scripts/worst_images.py --model_dir=runs/cityscapes_pspnet50 --data_dir=/data/cityscapes --by=pixel_accuracy

Writes worst_SPLIT.csv (every image, worst first: its scores and the IoU of each class in it) and worst_SPLIT.png (image,
truth and prediction of the first --num_images). An image's mIoU is over the classes that are in its truth or prediction.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import numpy as np
import tensorflow.compat.v1 as tf
import tqdm
from absl import flags

from scripts import datasets, evaluation, image_ranking, inference_flags, pictures
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
inference_flags.define()
flags.adopt_module_key_flags(inference_flags)
flags.DEFINE_string("data_dir", None, "Folder of the data set; unset: the drawn scenes.")
flags.DEFINE_string("split", None, "Split to score; unset: the configuration's eval_split.")
flags.DEFINE_integer("max_images", None, "Score the first so many images only.", lower_bound=1)
flags.DEFINE_enum("by", "miou", list(image_ranking.SCORES), "The score that says which is worst.")
flags.DEFINE_integer("num_images", 12, "Images on the sheet.", lower_bound=1)
flags.DEFINE_integer("columns", 2, "Images in a row of the sheet.", lower_bound=1)
flags.DEFINE_integer("width", 900, "Pixels across one: image, truth and prediction.", lower_bound=60)
flags.DEFINE_string("output_dir", None, "Folder to write to; unset: the model_dir.")

GAP = 4  # pixels between image, truth and prediction


def main():
    config, checkpoint, devices = inference_flags.read(FLAGS)
    split = FLAGS.split or config.eval_split
    folder = FLAGS.output_dir or FLAGS.model_dir
    if not os.path.isdir(folder):
        raise UsageError("--output_dir={}: there is no such folder".format(folder))
    examples = datasets.open_split(config, FLAGS.data_dir, split, FLAGS.max_images or config.eval.max_images)
    evaluator = evaluation.Evaluator(config, devices, examples)
    evaluator.network.load_checkpoint(checkpoint)
    with tqdm.tqdm(evaluator.each(), total=len(examples), unit="image", disable=not sys.stderr.isatty()) as scored:
        rows, worst = image_ranking.rank(scored, FLAGS.by, FLAGS.num_images)
    if not any(row.pixels for row in rows):
        raise evaluation.no_truth(examples, split, FLAGS.data_dir)

    data_set = datasets.of(config)
    csv_path, sheet_path = (os.path.join(folder, "worst_{}.{}".format(split, kind)) for kind in ("csv", "png"))
    image_ranking.write_csv(rows, data_set.class_names, csv_path)
    title = "{}, {}: the worst of {} images by {}".format(
        os.path.basename(os.path.abspath(FLAGS.model_dir)), split, len(rows), image_ranking.SCORES[FLAGS.by])
    pictures.save(sheet(worst, data_set, title), sheet_path)
    for row in rows[: len(worst)]:
        print("{:.4f}  {}".format(row.score, row.name))
    print("written: {} and {}".format(csv_path, sheet_path))


def sheet(worst, data_set, title):
    """The picture sheet of (row, `Scored`) pairs."""
    cells, seen = [], set()
    for place, (row, one) in enumerate(worst, start=1):
        worst_classes = sorted(
            (iou, name) for iou, name in zip(row.scores["per_class_iou"], data_set.class_names) if iou is not None)
        lines = ["{}. {}: mIoU {:.3f}, pixel accuracy {:.3f}".format(
            place, row.name, row.scores["miou"], row.scores["pixel_accuracy"]),
            "lowest IoU: " + ", ".join("{} {:.2f}".format(name, iou) for iou, name in worst_classes[:4])]
        cells.append((lines, panel(one, data_set.colors)))
        seen |= set(np.unique(one.truth)) | set(np.unique(one.prediction))
    key = (data_set.colors, data_set.class_names, [c for c in sorted(map(int, seen)) if c < data_set.num_classes])
    return pictures.sheet(cells, FLAGS.columns, FLAGS.width, title, key)


def panel(one, colors):
    """Image, truth and prediction side by side."""
    gap = np.full([one.image.shape[0], GAP, 3], 255, np.uint8)
    truth, prediction = (pictures.overlay(one.image, labels, colors) for labels in (one.truth, one.prediction))
    return np.concatenate([one.image, gap, truth, gap, prediction], axis=1)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
