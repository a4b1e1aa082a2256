"""Scores by `cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling`, from label pictures on disk as it wants them.

That scorer reads PNGs of labelIds, prints, and ends the process by sys.exit where it meets what it does not expect.
Its instance part is left out (NumPy 2 has no `in1d`, which version 2.3.0 calls there); what is asked of it here is
the IoU of each class and their mean, which must equal our own to the last digit.
"""

import contextlib
import copy
import importlib
import io
import math
import os
import shutil
import tempfile

import numpy as np
from PIL import Image

from inputs import labels
from scripts import datasets, pictures

MODULE = "cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling"


class OfficialScorer:
    """Takes images as they are scored, then has the official scorer score them all.

    Use it in a `with` block: predictions are kept in a temporary folder, an 8-bit PNG an image. The truth is the
    data set's own file; only where that is none of labelIds, or holds the value 255 (the licence plate's -1, on
    which the scorer stops), a copy with labelIds and 0 for what is ignored stands in for it.

    Raises:
        ValueError: it cannot be used, with the reason: another data set's classes, or no working cityscapesscripts.
    """

    def __init__(self, config):
        if datasets.of(config).file_values is not labels.train_id_to_label_id:
            raise ValueError("--official scores the classes of Cityscapes, and this model was trained on {}: leave it "
                             "out".format(config.dataset))
        try:
            with _contained():
                self._scorer = importlib.import_module(MODULE)
        except (Exception, SystemExit) as error:  # also ValueError for a CITYSCAPES_EXPORT_DIR that is not there
            raise ValueError("--official needs {}, which cannot be imported ({}): install cityscapesscripts, or leave "
                             "--official out".format(MODULE, error)) from error
        self._folder = None
        self._predictions, self._truths, self.num_copied = [], [], 0

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="official-")
        return self

    def __exit__(self, *error):
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, scored):
        """Takes one `evaluation.Scored`."""
        number = len(self._predictions)
        prediction = os.path.join(self._folder, "{:06}_prediction.png".format(number))
        pictures.save(labels.train_id_to_label_id[scored.prediction], prediction)
        truth, encoding = scored.example.label_path, scored.example.encoding
        if encoding is not labels.LABEL_ID_FILES or not _only_label_ids(truth):
            truth = os.path.join(self._folder, "{:06}_truth.png".format(number))
            ids = np.where(scored.truth == labels.IGNORE, 0, labels.train_id_to_label_id[scored.truth])
            pictures.save(ids.astype(np.uint8), truth)
            self.num_copied += 1
        self._predictions.append(prediction)
        self._truths.append(truth)

    def scores(self):
        """A dict of `per_class_iou` (a list, None for an absent class) and `miou`, a float."""
        args = copy.copy(self._scorer.args)
        args.evalInstLevelScore = args.evalPixelAccuracy = args.JSONOutput = False
        args.quiet = True
        try:
            with _contained() as printed:
                found = self._scorer.evaluateImgLists(self._predictions, self._truths, args)
        except (Exception, SystemExit) as error:
            told = " ".join(printed.getvalue().split()) or "{}: {}".format(type(error).__name__, error)
            raise ValueError("the official scorer stopped: {}".format(told)) from error
        iou = [found["classScores"][name] for name in labels.CLASS_NAMES]
        return {
            "per_class_iou": [None if math.isnan(value) else float(value) for value in iou],
            "miou": float(found["averageScoreClasses"]),
        }


def differences(ours, official):
    """Lines that say which scores are not the same float; none where all agree, absent classes included."""
    pairs = [("mIoU", ours["miou"], official["miou"])]
    pairs += list(zip(labels.CLASS_NAMES, ours["per_class_iou"], official["per_class_iou"]))
    return ["{}: {!r} here, {!r} there".format(name, a, b) for name, a, b in pairs if not _same(a, b)]


def _same(a, b):
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def _only_label_ids(path):
    with Image.open(path) as image:
        return int(np.asarray(image).max()) != 255


@contextlib.contextmanager
def _contained():
    """Keeps what is printed inside in a buffer."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed
