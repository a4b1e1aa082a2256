"""What can be odd about a data set's folders: functions that alter a sound data set in place.

Each takes the root of one with the splits train and val in the city `town`, and returns the --data_dir to give.
"""

import os
import shutil

import pytest

TRAIN = os.path.join("leftImg8bit", "train", "town")
IMAGE = "town_000000_000001_leftImg8bit.png"


def _pair(root, number=1):
    name = "town_000000_{:06}".format(number)
    return (os.path.join(root, TRAIN, name + "_leftImg8bit.png"),
            os.path.join(root, "gtFine", "train", "town", name + "_gtFine_labelIds.png"))


def no_label(root):
    os.remove(_pair(root)[1])
    return root


def same_name(root):
    for path in _pair(root):
        os.makedirs(os.path.dirname(path).replace("town", "village"))
        shutil.copy(path, os.path.dirname(path).replace("town", "village"))
    return root


def folder_image(root):
    os.remove(_pair(root)[0])
    os.mkdir(_pair(root)[0])
    return root


def folder_label(root):
    os.remove(_pair(root)[1])
    os.mkdir(_pair(root)[1])
    return root


def link_to_itself(root):
    os.remove(_pair(root)[0])
    os.symlink(IMAGE, _pair(root)[0])
    return root


def dead_link(root):
    os.remove(_pair(root)[0])
    os.symlink("gone.png", _pair(root)[0])
    return root


def no_permission(root):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    os.chmod(_pair(root)[0], 0)
    return root


def empty_split(root):
    shutil.rmtree(os.path.join(root, TRAIN))
    os.mkdir(os.path.join(root, TRAIN))
    return root


def no_split(root):
    shutil.rmtree(os.path.join(root, "leftImg8bit", "train"))
    return root


def no_layout(root):
    return os.path.join(root, "gtFine")


def no_folder(root):
    return root + "-elsewhere"


def a_file(root):
    return _pair(root)[0]


def _renamed(root, name):
    os.rename(root, os.path.join(os.path.dirname(root), name))
    return os.path.join(os.path.dirname(root), name)


def beyond_ascii(root):
    return _renamed(root, "Straßen Łódź 街道 🛣")


def spaces(root):
    return _renamed(root, "a set [1] of 'streets'; with {odd} names * ?")


def _name(root, name):
    for path, end in zip(_pair(root), (b"_leftImg8bit.png", b"_gtFine_labelIds.png")):
        os.rename(path, os.path.join(os.fsencode(os.path.dirname(path)), name + end))
    return root


def long_name(root):
    return _name(root, b"n" * (255 - len("_gtFine_labelIds.png")))


def no_text(root):
    return _name(root, b"town_\xff\xfe")


def link_loop(root):
    os.symlink(root, os.path.join(root, "leftImg8bit", "train", "loop"))
    os.symlink("..", os.path.join(root, TRAIN, "up"))
    return root


def good_links(root):
    moved = os.path.join(root, "elsewhere.png")
    os.rename(_pair(root)[0], moved)
    os.symlink(moved, _pair(root)[0])
    return root
