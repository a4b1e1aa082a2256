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

from inputs.examples import DataError, Example
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
    root, wanted = _absolute(root), _wanted(num_train, num_val, height, width, seed)
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


def is_drawn(root, num_train, num_val, height, width, seed=0):
    """Whether `ensure` would find these scenes in `root`. Raises as `ensure` would; writes nothing."""
    root, wanted = _absolute(root), _wanted(num_train, num_val, height, width, seed)
    if _description(root) == wanted:
        return True
    _refuse_foreign(root)
    return False


def planned_examples(root, split, num_train, num_val, height, width, seed=0):
    """The examples that `ensure` would draw for a split, none of whose files may be there: a list of `Example`.

    Raises:
      DataError: another split than train and val.
    """
    counts = {"train": num_train, "val": num_val}
    if split not in counts:
        raise DataError("no split %s among the drawn scenes: there are train and val" % split)
    names = [_name(number) for number in range(counts[split])]
    return [Example(name, CITY, *_paths(_absolute(root), split, name)) for name in names]


def draw_scene(seed, split, number, height, width):
    """One scene: (picture [height, width, 3] uint8 RGB, labelIds [height, width] uint8)."""
    # RandomState, as its stream of numbers is the same in every NumPy.
    return scene.draw(np.random.RandomState([seed, _SPLITS.index(split), number]), height, width)


def _draw_all(root, wanted, progress):
    counts = {"train": wanted["num_train"], "val": wanted["num_val"]}
    done = 0
    for split in _SPLITS:
        for path in _paths(root, split, _name(0)):
            os.makedirs(os.path.dirname(path))
        for number in range(counts[split]):
            picture, label = draw_scene(wanted["seed"], split, number, wanted["height"], wanted["width"])
            for pixels, path in zip((picture, label), _paths(root, split, _name(number))):
                Image.fromarray(pixels).save(path, compress_level=1)
            done += 1
            if progress:
                progress(done, sum(counts.values()))
    with open(os.path.join(root, _DESCRIPTION), "w") as file:
        json.dump(wanted, file, indent=2, sort_keys=True)
        file.write("\n")


def _absolute(root):
    return os.path.abspath(os.path.expanduser(str(root)))


def _name(number):
    return "%s_000000_%06d" % (CITY, number)


def _paths(root, split, name):
    """The files of one scene: (image, label)."""
    return tuple(
        os.path.join(root, kind, split, CITY, name + suffix)
        for kind, suffix in (("leftImg8bit", "_leftImg8bit.png"), ("gtFine", "_gtFine_labelIds.png"))
    )


def _wanted(num_train, num_val, height, width, seed):
    """The description of a set of scenes; ValueError for values that cannot be drawn."""
    wanted = dict(num_train=num_train, num_val=num_val, height=height, width=width, seed=seed)
    for name, least in (("num_train", 1), ("num_val", 1), ("height", 32), ("width", 32), ("seed", 0)):
        if int(wanted[name]) != wanted[name] or wanted[name] < least:
            raise ValueError(
                "synthetic.%s is %s, but must be an integer of at least %d" % (name, wanted[name], least)
            )
    return dict(wanted, drawing=_DRAWING)


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
