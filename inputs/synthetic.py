"""Street scenes drawn to disk in the Cityscapes layout: data to try everything on, without a download.

Scene number k of a split is drawn from (seed, split, k) alone, so a larger set begins with the scenes of a
smaller one. A draw goes to a temporary folder beside the target and is renamed when complete: an interrupted
one is never taken for a data set. `synthetic.json` in it says what was drawn.
"""

import json
import os
import shutil
import tempfile

import numpy as np
from PIL import Image

from inputs.cityscapes import DataError
from inputs.street import scene

CITY = "synthetic"
_DESCRIPTION = "synthetic.json"
_CONTENTS = {"leftImg8bit", "gtFine", _DESCRIPTION}
_SPLITS = ("train", "val")
# Part of the description: raise it when the drawing changes, so that old scenes are drawn again.
_DRAWING = 3


def ensure(root, num_train, num_val, height, width, seed=0, progress=None):
    """Draws the scenes into `root` unless they are there already, drawn with the same values.

    About 30 scenes a second on one core at 144x256. Scenes drawn earlier with other values are replaced; a
    folder that holds anything else is left alone.

    Args:
      progress: called as `progress(scenes drawn, scenes in all)` after each scene.

    Returns:
      whether anything was drawn.

    Raises:
      DataError: `root` holds something that is no set of drawn scenes. ValueError: values that cannot be
      drawn.
    """
    root = os.path.abspath(os.path.expanduser(str(root)))
    wanted = dict(num_train=num_train, num_val=num_val, height=height, width=width, seed=seed)
    for name, least in (("num_train", 1), ("num_val", 1), ("height", 32), ("width", 32), ("seed", 0)):
        if int(wanted[name]) != wanted[name] or wanted[name] < least:
            raise ValueError(
                "synthetic.%s is %s, but must be an integer of at least %d" % (name, wanted[name], least)
            )
    wanted["drawing"] = _DRAWING
    if _description(root) == wanted:
        return False
    _refuse_foreign(root)
    os.makedirs(os.path.dirname(root), exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=os.path.basename(root) + ".drawing-", dir=os.path.dirname(root))
    try:
        _draw_all(temporary, wanted, progress)
        _put_in_place(temporary, root, wanted)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def draw_scene(seed, split, number, height, width):
    """One scene: (picture [height, width, 3] uint8 RGB, labelIds [height, width] uint8)."""
    # RandomState, as its stream of numbers is the same in every NumPy.
    return scene.draw(np.random.RandomState([seed, _SPLITS.index(split), number]), height, width)


def _draw_all(root, wanted, progress):
    counts = {"train": wanted["num_train"], "val": wanted["num_val"]}
    done = 0
    for split in _SPLITS:
        folders = [os.path.join(root, kind, split, CITY) for kind in ("leftImg8bit", "gtFine")]
        for folder in folders:
            os.makedirs(folder)
        for number in range(counts[split]):
            picture, label = draw_scene(wanted["seed"], split, number, wanted["height"], wanted["width"])
            name = "%s_000000_%06d" % (CITY, number)
            Image.fromarray(picture).save(
                os.path.join(folders[0], name + "_leftImg8bit.png"), compress_level=1
            )
            Image.fromarray(label).save(
                os.path.join(folders[1], name + "_gtFine_labelIds.png"), compress_level=1
            )
            done += 1
            if progress:
                progress(done, sum(counts.values()))
    with open(os.path.join(root, _DESCRIPTION), "w") as file:
        json.dump(wanted, file, indent=2, sort_keys=True)
        file.write("\n")


def _description(root):
    """What was drawn in `root`, or None."""
    try:
        with open(os.path.join(root, _DESCRIPTION)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _refuse_foreign(root):
    if os.path.exists(root) and not os.path.isdir(root):
        raise DataError("cannot draw scenes into %s: it is a file; name a folder" % root)
    found = set(os.listdir(root)) if os.path.isdir(root) else set()
    foreign = found - _CONTENTS
    if foreign or (found and _DESCRIPTION not in found):
        raise DataError(
            "cannot draw scenes into %s: it holds %s, and no %s says that it was drawn here; "
            "name an empty or a new folder" % (root, ", ".join(sorted(foreign or found)[:5]), _DESCRIPTION)
            if _DESCRIPTION not in found
            else "cannot draw other scenes into %s: it also holds %s; move that, or name a new folder"
            % (root, ", ".join(sorted(foreign)[:5]))
        )


def _put_in_place(temporary, root, wanted):
    os.chmod(temporary, 0o755)  # mkdtemp makes it private
    old = temporary + ".old"
    try:
        if os.path.isdir(root) and os.listdir(root):
            os.rename(root, old)
        os.rename(temporary, root)
    except OSError:
        if _description(root) != wanted:  # else another process has just drawn the same
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
