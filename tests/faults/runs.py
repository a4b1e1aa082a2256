"""Small runs of both training scripts, what they left, and whether two of them left the same."""

import json
import os
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from tests.scripts import command


def segmentation(data, model_dir, *arguments):
    """The command line of a small run of train.py on two towers."""
    return command.train("--num_gpus=2", "--data_dir=" + data, "--model_dir={}".format(model_dir), *arguments)


def classification(data, model_dir, *arguments):
    """The command line of a small run of train_classifier.py on two towers."""
    small = {"model.units": 1, "model.width": 4, "batch_size": 8, "optimizer.learning_rate": 0.02, "log.every_steps": 1,
             "eval.batch_size": 20}
    given = {argument.split("=")[0] for argument in arguments}
    return ["train_classifier", "--device_type=cpu", "--num_gpus=2", "--data_dir=" + data,
            "--model_dir={}".format(model_dir)] + [
                "--config.{}={}".format(name, value) for name, value in small.items() if "--config." + name not in given
            ] + list(arguments)


class Running(object):
    """A script that runs: `lines` grows as it prints."""

    def __init__(self, arguments):
        self.process = command.start(*arguments)
        self.lines, self._errors, self._printed = [], [], threading.Condition()
        self._threads = [threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
                         threading.Thread(target=self._read, args=(self.process.stderr, self._errors))]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def wait_for(self, start, count=1, timeout=300):
        """Waits for so many lines that start with `start`; whether they came before the script ended."""
        with self._printed:
            self._printed.wait_for(
                lambda: self._count(start) >= count or not any(thread.is_alive() for thread in self._threads[:1]), timeout)
        return self._count(start) >= count

    def end(self, timeout=300):
        """Waits for the end: (exit code, standard output, standard error)."""
        try:
            code = self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        for thread in self._threads:
            thread.join(60)
        return code, "".join(self.lines), "".join(self._errors)

    def _count(self, start):
        return sum(line.startswith(start) for line in self.lines)

    def _read(self, stream, lines):
        for line in stream:
            with self._printed:
                lines.append(line)
                self._printed.notify_all()
        with self._printed:
            self._printed.notify_all()


def history(model_dir):
    """What a run measured, without its speed: a list of dicts."""
    with open(os.path.join(str(model_dir), "history.jsonl")) as file:
        entries = [json.loads(line) for line in file]
    return [{name: value for name, value in entry.items() if name != "images_per_second"} for entry in entries]


def weights(folder):
    """All values of a folder's latest checkpoint, by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def differing_bits(one, other):
    """The names of the values of two checkpoints that are not the same to the bit."""
    assert set(one) == set(other)
    return sorted(name for name in one if np.asarray(one[name]).tobytes() != np.asarray(other[name]).tobytes())


def verified(folder):
    """The step of the folder's latest checkpoint, every value of which could be read."""
    return int(weights(folder)["global_step"])
