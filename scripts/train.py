"""Trains a PSPNet on any number of towers, evaluates it, and writes what came of it.

    python scripts/train.py --num_gpus=2
    python scripts/train.py --config=configs/cityscapes_pspnet50.py --num_gpus=8 --data_dir=/data/cityscapes

Writes into --model_dir: checkpoints, config.json, history.jsonl, metrics.json, curve.png, pictures/ and what
TensorBoard shows. The same command again goes on where the last one stopped.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf
from absl import flags

import towers
from inputs import pipeline
from scripts import (
    bad_images,
    batches,
    checkpoints,
    configuration,
    datasets,
    evaluation,
    initial_weights,
    network,
    report,
    training_flags,
    training_run,
    workers,
)

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "synthetic_pspnet.py"))
flags.adopt_module_key_flags(configuration)
training_flags.define("Folder of the data set, in the Cityscapes layout or its own; unset: drawn scenes, in data/synthetic.")
flags.adopt_module_key_flags(training_flags)
bad_images.define()
FLAGS = flags.FLAGS


def main():
    # Whatever can be refused is refused before anything is written.
    config = configuration.load(CONFIG)
    run = training_run.plan(config, configuration.name(CONFIG))
    network.check_crop(config, "input.crop_size")
    network.check_crop(config, "eval.crop_size")
    if config.init_checkpoint and not run.checkpoint:
        initial_weights.find(config.init_checkpoint)
    draw = not FLAGS.dry_run
    training = bad_images.open_training_split(
        config, FLAGS.data_dir, config.train_split, run.model_dir if run.checkpoint else None, draw)
    scoring = bad_images.open_split(config, FLAGS.data_dir, config.eval_split, config.eval.max_images, draw)

    run = training_run.meet(run, config, workers.listed([example.name for example in training.examples]))

    # One step: a batch, its parts for the towers, their losses and gradients, one update of the weights.
    tf.set_random_seed(config.seed)
    seen = batches.Batches(lambda first: training_set(config, training.examples, run, first), run.first_batch,
                           lambda place: training.examples[place].image_path)
    parts = towers.split_batch(seen.tensors, len(run.devices))
    train_step, learning_rate = network.train_step(config, parts, run.devices, run.cluster, **run.aggregation)
    started = None
    if run.checkpoint:
        initial_weights.refuse_as_run(run.checkpoint)
        checkpoints.check(run.checkpoint, tf.global_variables())
    elif config.init_checkpoint and not run.start_step and training_run.is_chief(run):
        started = initial_weights.start_from(config.init_checkpoint, config)
    chief = training_run.is_chief(run)
    evaluator = evaluation.Evaluator(config, run.devices, scoring.examples) if chief else None
    if chief:
        sizes = training_run.part_sizes(run, config)
        print(report.describe(config, run.devices, train_step, sizes, training.examples, scoring.examples, run.start_step,
                              run.stop_step), flush=True)
    if started:
        print("{:<10} {}".format("weights", started), flush=True)
    for line in bad_images.describe(training) + bad_images.describe(scoring):
        print(line, flush=True)
    if FLAGS.dry_run:
        print("dry run: no step taken")
        return

    if chief:
        bad_images.save(training, run.model_dir)
    add_summaries(config, parts[0], train_step)
    training_run.carry_out(run, config, train_step, learning_rate, evaluator, replay=seen.again)


def training_set(config, examples, run, first):
    """What this worker has of the batches from number `first` on: a dataset."""
    batch_size = config.batch_size // config.accumulate_steps
    return pipeline.train_dataset(
        examples,
        batch_size,
        config.seed,
        first,
        share=training_run.share(run, batch_size),
        ignore_label=config.ignore_label,
        replace_unreadable=bad_images.replaces(),
        **config.input.to_dict(),
    )


def add_summaries(config, part, train_step):
    """For TensorBoard: tower 0's images with truth and prediction."""
    with tf.device("/cpu:0"):
        palette = tf.constant(datasets.of(config).palette)
        image = part["image"] * tf.constant(config.input.std) + tf.constant(config.input.mean)
        image = tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8)
        truth = tf.gather(palette, part["label"])
        prediction = tf.gather(palette, train_step.outputs[0]["prediction"])
        tf.summary.image("image_truth_prediction", tf.concat([image, truth, prediction], axis=2), 4)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
