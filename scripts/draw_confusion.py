"""Draws a confusion matrix as a picture: what share of each true class was taken for which class.

    python scripts/draw_confusion.py runs/synthetic_pspnet
    python scripts/draw_confusion.py runs/cityscapes_pspnet50/evaluation_val.json --normalise=prediction

Takes the JSON that train.py (metrics.json) or evaluate.py wrote, or the folder of a run for its metrics.json. A row is a
true class; rows sum to 100 %, or columns with --normalise=prediction. Classes that are neither true nor predicted
anywhere are left out.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from absl import flags

from scripts import commandline, confusion_matrix
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
flags.DEFINE_string("output", None, "PNG to write; unset: NAME_OF_THE_JSON_confusion.png beside it.")
flags.DEFINE_enum("normalise", "truth", ["truth", "prediction"], "What sums to 100 %: a true or a predicted class.")
flags.DEFINE_integer("top", 10, "Print the so many largest confusions.", lower_bound=0)


def main(arguments):
    if len(arguments) != 1:
        raise UsageError("{} arguments; wanted one: the folder of a run, or the JSON of an evaluation".format(len(arguments)))
    path = os.path.join(arguments[0], "metrics.json") if os.path.isdir(arguments[0]) else arguments[0]
    matrix, names, title = confusion_matrix.read(path)
    output = FLAGS.output or os.path.splitext(path)[0] + "_confusion.png"
    matrix, names = confusion_matrix.present(matrix, names)
    for line in confusion_matrix.largest(matrix, names, FLAGS.top):
        print(line)
    confusion_matrix.draw(confusion_matrix.shares(matrix, FLAGS.normalise), names, output, title, FLAGS.normalise)
    print("written: {}".format(output))


if __name__ == "__main__":
    commandline.run(main, positional=True)
