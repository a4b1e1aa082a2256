"""Checks a folder of predictions before it is sent to the Cityscapes benchmark; exit code 1 if anything is wrong.

    python scripts/check_submission.py submission --data_dir=/data/cityscapes --split=test

Prints one line a fault: files that are missing, surplus, two for one image, or unreadable, and those whose format,
mode, size or labelIds are not what the server takes. Labels of the split are not needed.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from absl import flags

from scripts import commandline, submission
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Folder that holds leftImg8bit; its images are what must be predicted.")
flags.DEFINE_string("split", "test", "Split that was predicted.")


def main(arguments):
    if len(arguments) != 1:
        raise UsageError("{} arguments; wanted one: the folder of predictions".format(len(arguments)))
    if not FLAGS.data_dir:
        raise UsageError("--data_dir is missing: name the folder that holds leftImg8bit")
    folder, = arguments
    if not os.path.isdir(folder):
        raise ValueError("{} is not a folder: name the one that holds the predictions".format(folder))
    images = submission.images_of_split(FLAGS.data_dir, FLAGS.split)
    told, good = submission.faults(folder, images)
    for line in told:
        print(line)
    print("{} of {} images of {!r} have a prediction without fault; {} fault(s)".format(
        good, len(images), FLAGS.split, len(told)))
    if told:
        sys.exit(1)


if __name__ == "__main__":
    commandline.run(main, positional=True)
