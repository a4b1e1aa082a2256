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
    checkpoints,
    configuration,
    datasets,
    evaluation,
    initial_weights,
    network,
    profile_hook,
    report,
    training_flags,
)
from scripts.history import History
from scripts.progress import Progress
from scripts.training_hooks import EvaluationHook, evaluate_and_write
from towers.session import BestCheckpoint, run_training

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "synthetic_pspnet.py"))
flags.adopt_module_key_flags(configuration)
training_flags.define("Folder of the data set, in the Cityscapes layout or its own; unset: drawn scenes, in data/synthetic.")
flags.adopt_module_key_flags(training_flags)
FLAGS = flags.FLAGS


def main():
    # Whatever can be refused is refused before anything is written.
    config = configuration.load(CONFIG)
    stop_step = FLAGS.max_steps or config.max_steps
    config.max_steps = max(config.max_steps, stop_step)
    devices = towers.tower_devices(FLAGS.num_gpus, FLAGS.device_type)
    check_sizes(config, len(devices))
    model_dir = FLAGS.model_dir or os.path.join(ROOT, "runs", configuration.name(CONFIG))
    training_flags.check_model_dir(config, model_dir)
    checkpoint, start_step = checkpoints.find(model_dir)
    profiled = profile_hook.parse(FLAGS.profile, start_step, stop_step)
    draw = not FLAGS.dry_run
    train_examples = datasets.open_split(config, FLAGS.data_dir, config.train_split, draw=draw)
    eval_examples = datasets.open_split(
        config, FLAGS.data_dir, config.eval_split, config.eval.max_images, draw=draw
    )

    # One step: a batch, its parts for the towers, their losses and gradients, one update of the weights.
    tf.set_random_seed(config.seed)
    batch = next_batch(config, train_examples, start_step)
    parts = towers.split_batch(batch, len(devices))
    train_step, learning_rate = network.train_step(config, parts, devices)
    started = None
    if checkpoint:
        initial_weights.refuse_as_run(checkpoint)
        checkpoints.check(checkpoint, tf.global_variables())
    elif config.init_checkpoint:
        started = initial_weights.start_from(config.init_checkpoint, config)
    evaluator = evaluation.Evaluator(config, devices, eval_examples)

    print(
        report.describe(
            config,
            devices,
            train_step,
            [part["label"].shape[0] for part in parts],
            train_examples,
            eval_examples,
            start_step,
            stop_step,
        ),
        flush=True,
    )
    if started:
        print("{:<10} {}".format("weights", started), flush=True)
    if FLAGS.dry_run:
        print("dry run: no step taken")
        return

    os.makedirs(model_dir, exist_ok=True)
    configuration.save(config, model_dir)
    history = History(model_dir, start_step)
    if start_step < stop_step:
        add_summaries(config, parts[0], train_step, learning_rate)
        shown = Progress(
            train_step, learning_rate, config.batch_size, stop_step, config.log.every_steps, history
        )
        best = BestCheckpoint(model_dir)
        scored = EvaluationHook(evaluator, shown, history, model_dir, config, stop_step, best)
        ended = run_training(
            train_step,
            model_dir,
            stop_step,
            config=towers.session_config(devices),
            save_every=config.checkpoint.every_steps,
            keep=config.checkpoint.keep,
            hooks=[shown, scored] + ([profile_hook.ProfileHook(profiled, shown, model_dir)] if profiled else []),
            summary_every=config.log.summary_every_steps,
            batch_size=config.batch_size,
        )
        if ended.signal:
            print(training_flags.stopped(ended))
            return
    else:
        print("{} is at step {} already: nothing to train".format(model_dir, start_step))
        evaluator.network.load_checkpoint(checkpoint)
        evaluate_and_write(evaluator, start_step, history, model_dir, config, print)
    print("written: {}".format(model_dir))


def check_sizes(config, num_towers):
    """UsageError unless every tower gets an example and the network takes the crops."""
    training_flags.check_batch(config, num_towers, config.accumulate_steps)
    network.check_crop(config, "input.crop_size")
    network.check_crop(config, "eval.crop_size")


def next_batch(config, examples, start_step):
    """The batch of a step, from the one that `start_step` steps have not seen: image, label."""
    with tf.device("/cpu:0"):
        dataset = pipeline.train_dataset(
            examples,
            config.batch_size // config.accumulate_steps,
            config.seed,
            start_step * config.accumulate_steps,
            ignore_label=config.ignore_label,
            **config.input.to_dict(),
        )
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
    return {"image": batch["image"], "label": batch["label"]}


def add_summaries(config, part, train_step, learning_rate):
    """For TensorBoard: the learning rate, and tower 0's images with truth and prediction."""
    with tf.device("/cpu:0"):
        palette = tf.constant(datasets.of(config).palette)
        image = part["image"] * tf.constant(config.input.std) + tf.constant(config.input.mean)
        image = tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8)
        truth = tf.gather(palette, part["label"])
        prediction = tf.gather(palette, train_step.outputs[0]["prediction"])
        tf.summary.scalar("learning_rate", learning_rate)
        tf.summary.image("image_truth_prediction", tf.concat([image, truth, prediction], axis=2), 4)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
