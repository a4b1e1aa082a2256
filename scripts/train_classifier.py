"""Trains an image classifier on any number of towers, evaluates it, and writes what came of it.

    python scripts/train_classifier.py --num_gpus=2 --data_dir=/data/cifar-10-batches-bin

Writes into --model_dir: checkpoints, config.json, history.jsonl, metrics.json, curve.png and what TensorBoard shows. The
same command again goes on where the last one stopped, with as many towers as are there.
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
from inputs import cifar10
from scripts import batches, checkpoints, classifier, classifier_configuration, configuration, training_flags, training_run
from scripts.commandline import UsageError

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "cifar10_resnet.py"))
flags.adopt_module_key_flags(configuration)
training_flags.define("Folder of the binary version of CIFAR-10.")
flags.adopt_module_key_flags(training_flags)
FLAGS = flags.FLAGS


def main():
    # Whatever can be refused is refused before anything is written.
    config = classifier_configuration.load(CONFIG)
    run = training_run.plan(config, configuration.name(CONFIG), classifier_configuration.read)
    if not FLAGS.data_dir:
        raise UsageError("--data_dir is missing: name the folder that holds data_batch_1.bin and test_batch.bin")
    train, test = (cifar10.open_split(FLAGS.data_dir, split) for split in (config.train_split, config.eval_split))

    run = training_run.meet(run, config, "{} in {}".format(train.number, " ".join(map(os.path.basename, train.paths))))

    # One step: a batch, its parts for the towers, their losses and gradients, one update of the weights.
    tf.set_random_seed(config.seed)
    share = training_run.share(run, config.batch_size)
    seen = batches.Batches(
        lambda first: cifar10.train_dataset(train, config.batch_size, config.seed, first, share=share,
                                            **config.input.to_dict()),
        run.first_batch, lambda place: cifar10.name(train, place))
    parts = towers.split_batch(seen.tensors, len(run.devices))
    learning_rate = classifier.learning_rate(config)
    train_step = towers.build_train_step(
        classifier.training_model(config),
        parts,
        tf.train.MomentumOptimizer(learning_rate, config.optimizer.momentum),
        run.devices,
        gradient_transform=classifier.gradient_transform(config),
        cluster=run.cluster,
        check_finite=True,
        **run.aggregation,
    )
    if run.checkpoint:
        checkpoints.check(run.checkpoint, tf.global_variables())
    evaluator = classifier.Evaluator(config, run.devices[0], test) if training_run.is_chief(run) else None
    if evaluator:
        print(describe(config, run, train, test), flush=True)
    if FLAGS.dry_run:
        print("dry run: no step taken")
        return

    training_run.carry_out(run, config, train_step, learning_rate, evaluator, classifier.evaluate_and_write,
                           seen.again)


def describe(config, run, train, test):
    """What the run is, in lines."""
    optimizer = config.optimizer
    norms = [v for v in tf.global_variables() if v.op.name.endswith("/moving_mean")]
    lines = [
        ("towers", "{}: {}".format(len(run.devices), " ".join(run.devices))),
        ("batch", "{} in total, {} a tower".format(
            config.batch_size, ", ".join(map(str, sorted(set(training_run.part_sizes(run, config))))))),
        ("network", "ResNet-{}, {:,} parameters, {} batch norms ({})".format(
            6 * config.model.units + 2, sum(v.shape.num_elements() for v in tf.trainable_variables()), len(norms),
            config.model.norm)),
        ("data", "{:,} pictures to train on, {:,} to evaluate".format(train.number, test.number)),
        ("schedule", "{:,} steps, {:.2f} epochs, lr {:g}, times {:g} at step{} {}".format(
            config.max_steps, config.max_steps * config.batch_size / train.number, optimizer.learning_rate,
            optimizer.factor, "s" if len(optimizer.boundaries) > 1 else "",
            " and ".join("{:,}".format(step) for step in optimizer.boundaries) or "none")),
    ]
    if run.stop_step < config.max_steps:
        lines.append(("stops", "at step {:,} of the {:,}".format(run.stop_step, config.max_steps)))
    if run.start_step:
        lines.append(("resumed", "at step {}".format(run.start_step)))
    return "\n".join("{:<10} {}".format(name, text) for name, text in lines)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
