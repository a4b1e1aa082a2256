"""Finds the files of a data set in the Cityscapes layout, whatever the size of its images.

    {root}/leftImg8bit/{split}/{city}/{name}_leftImg8bit.png
    {root}/gtFine/{split}/{city}/{name}_gtFine_labelIds.png        or, where that is not there,
    _gtFine_labelTrainIds.png

Whether the files can be used is for `inputs.examples` to find out.
"""

import glob
import os

from inputs import labels
from inputs.examples import DataError, Example, check_examples

__all__ = ["DataError", "Example", "check_examples", "holds_train_ids", "list_examples"]

IMAGE_SUFFIX = "_leftImg8bit.png"
LABEL_SUFFIXES = ("_gtFine_labelIds.png", "_gtFine_labelTrainIds.png")


def holds_train_ids(label_path):
    """Whether a label file holds trainIds rather than labelIds, by its name."""
    return label_path.endswith(LABEL_SUFFIXES[1])


def list_examples(root, split, require_labels=True):
    """The examples of a split, a list of `Example` sorted by name.

    Args:
      root: the folder that holds leftImg8bit/ and gtFine/.
      split: 'train', 'val', 'test' or any other folder name.
      require_labels: False gives `label_path=None` where there is no label, instead of an error.

    Raises:
      DataError: no images; an image without its label; one name in two cities.
    """
    root = os.path.expanduser(str(root))
    folder = os.path.join(root, "leftImg8bit", split)
    paths = glob.glob(os.path.join(glob.escape(folder), "*", "*" + IMAGE_SUFFIX))
    if not paths:
        raise DataError(
            "no images found in %s: nothing matches */*%s there%s"
            % (folder, IMAGE_SUFFIX, _what_is_there(root, folder))
        )
    examples = {}
    for path in sorted(paths):
        city = os.path.basename(os.path.dirname(path))
        name = os.path.basename(path)[: -len(IMAGE_SUFFIX)]
        if name in examples:
            raise DataError(
                "two images have the name %s: %s and %s; rename one" % (name, examples[name].image_path, path)
            )
        candidates = [os.path.join(root, "gtFine", split, city, name + suffix) for suffix in LABEL_SUFFIXES]
        label = next((c for c in candidates if os.path.isfile(c)), None)
        if label is None and require_labels:
            raise DataError(
                "image without its label: %s has neither %s nor %s"
                % (path, candidates[0], os.path.basename(candidates[1]))
            )
        encoding = labels.TRAIN_ID_FILES if label and holds_train_ids(label) else labels.LABEL_ID_FILES
        examples[name] = Example(name, city, path, label, encoding)
    return [examples[name] for name in sorted(examples)]


def _what_is_there(root, folder):
    if not os.path.isdir(root):
        return "; %s is not a folder" % root
    if os.path.isdir(folder):
        return ""
    above = os.path.dirname(folder)
    if not os.path.isdir(above):
        return "; %s has no folder leftImg8bit" % root
    return "; the splits there are: %s" % (", ".join(sorted(os.listdir(above))) or "none")
