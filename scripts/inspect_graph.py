"""Prints what a graph's towers do and what is wrong with it; exit code 1 if anything is.

    python scripts/inspect_graph.py runs/synthetic_pspnet            the graph of the latest checkpoint there
    python scripts/inspect_graph.py path/to/model.ckpt-300.meta      a file that tf.train.Saver wrote
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf

import towers
from scripts.commandline import UsageError


def main(arguments):
    if len(arguments) != 1:
        raise UsageError("{} arguments; wanted one: a model_dir or a .meta file".format(len(arguments)))
    graph = tf.Graph()
    with graph.as_default():
        path = meta_file(arguments[0])
        try:
            tf.train.import_meta_graph(path, clear_devices=False)
            if not graph.get_operations():  # an empty file is a message without a field
                raise ValueError("it holds no op")
        except (OSError, ValueError) as error:
            raise ValueError("{} is no graph that tf.train.Saver wrote ({}): give the model_dir of a run, or a .meta "
                             "file".format(path, commandline.one_line(error))) from error
    found = towers.inspect(graph)
    print(found)
    if found.problems:
        sys.exit(1)


def meta_file(path):
    """The .meta file that `path` names or holds."""
    if os.path.isdir(path):
        checkpoint = tf.train.latest_checkpoint(path)
        if checkpoint is None:
            raise ValueError("{} holds no checkpoint: give the model_dir of a run, or a .meta file".format(path))
        path = checkpoint + ".meta"
    if not os.path.exists(path):
        raise ValueError("there is no file {}: give the model_dir of a run, or a .meta file".format(path))
    return path


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main, positional=True)
