"""Scores a checkpoint on a split: a table by class, mIoU, mean accuracy and pixel accuracy.

    python scripts/evaluate.py --model_dir=runs/synthetic_pspnet
    python scripts/evaluate.py --model_dir=runs/cityscapes_pspnet50 --data_dir=/data/cityscapes \
        --scales=0.5,0.75,1,1.25,1.5,1.75 --flip

With --official the same predictions, written as labelId PNGs, are scored by cityscapesscripts as well, and any
difference from our scores, in any digit, is an error.
The network and how images are cut come from model_dir/config.json; flags change the latter.
"""

import contextlib
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf
import tqdm
from absl import flags

from scripts import bad_images, checkpoints, datasets, evaluation, inference_flags, official, report

FLAGS = flags.FLAGS
inference_flags.define()
flags.DEFINE_string("data_dir", None, "Folder in the Cityscapes layout; unset: the drawn scenes.")
flags.DEFINE_string("split", None, "Split to score; unset: the configuration's eval_split.")
flags.DEFINE_integer("max_images", None, "Score the first so many images only.", lower_bound=1)
flags.DEFINE_string("output", None, "JSON file to write; unset: MODEL_DIR/evaluation_SPLIT.json.")
flags.DEFINE_integer(
    "num_pictures", 0, "Images to draw with truth and prediction, in a folder of their own.", lower_bound=0
)
bad_images.define()
flags.DEFINE_bool("official", False, "Score with cityscapesscripts too, and require that it agrees.")


def main():
    config, checkpoint, devices = inference_flags.read(FLAGS)
    split = FLAGS.split or config.eval_split
    output = FLAGS.output or os.path.join(FLAGS.model_dir, "evaluation_{}.json".format(split))
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise commandline.UsageError("--output={}: its folder does not exist".format(output))
    max_images = FLAGS.max_images or config.eval.max_images
    found = bad_images.open_split(config, FLAGS.data_dir, split, max_images)
    examples = found.examples
    scorer = official.OfficialScorer(config) if FLAGS.official else None

    evaluator = evaluation.Evaluator(config, devices, examples)
    evaluator.network.load_checkpoint(checkpoint)
    print(
        "{}: {} images of {!r}, crop {}x{}, stride rate {:.3g}, scales {}, flip {}, on {}".format(
            checkpoint,
            len(examples),
            split,
            config.eval.crop_size[0],
            config.eval.crop_size[1],
            config.eval.stride_rate,
            ", ".join("{:g}".format(scale) for scale in config.eval.scales),
            "on" if config.eval.flip else "off",
            " ".join(devices),
        ),
        flush=True,
    )
    for line in bad_images.describe(found):
        print(line, flush=True)
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(tqdm.tqdm(total=len(examples), unit="image", disable=not sys.stderr.isatty()))
        on_image = stack.enter_context(scorer).add if scorer else lambda scored: None
        result = evaluator.run(FLAGS.num_pictures, progress=lambda done, of: bar.update(1), on_image=on_image)
        more = official_scores(scorer, result) if scorer else {}

    if not result.scores["num_classes_present"]:
        raise evaluation.no_truth(examples, split, FLAGS.data_dir)
    print(report.class_table(result.scores, datasets.of(config).class_names))
    settings = {name: config.eval[name] for name in ("crop_size", "stride_rate", "scales", "flip")}
    evaluation.write_metrics(
        result, checkpoints.verified_step(checkpoint), output, split=split, checkpoint=checkpoint, **settings, **more,
        **({"left_out": bad_images.as_json(found)} if found.bad else {})
    )
    print("written: {}".format(output))
    if result.samples:
        folder = os.path.splitext(output)[0] + "_pictures"
        evaluation.write_pictures(result, folder)
        print("written: {} pictures in {}".format(len(result.samples), folder))


def official_scores(scorer, result):
    """What the JSON says of the official scorer; ValueError where it does not agree with our scores."""
    found = scorer.scores()
    differ = official.differences(result.scores, found)
    if differ:
        raise ValueError("the official scorer does not agree: {}".format("; ".join(differ)))
    print("cityscapesscripts finds the same to the last digit: mIoU {!r} over {} classes{}".format(
        found["miou"], result.scores["num_classes_present"],
        "; labelIds were written for the truth of {} images".format(scorer.num_copied) if scorer.num_copied else ""))
    return {"official": dict(found, miou=None if math.isnan(found["miou"]) else found["miou"])}


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
