"""--on_bad_image: what becomes of images and labels that cannot be used.

    stop    (the default) the first of them ends the program, before anything is written
    skip    all files of a split are read through first, and those examples left out and listed

A training run's order of examples follows from their number, so what is left out must not change while it lasts. What a
run left out when it began is in MODEL_DIR/skipped.json and stays left out when it is resumed, mended or not, with either
value of the flag. With `skip`, an example that is found bad later, at a resumption or in the middle of the run, keeps its
place, and the next one that can be read is taken for it (`replace_unreadable` of `inputs.pipeline`): on any number of
towers the same.
"""

import collections
import json
import os

from absl import flags

from inputs.examples import DataError, check_examples, usable_examples
from scripts import datasets

FLAGS = flags.FLAGS
FILE_NAME = "skipped.json"
_SHOWN = 20  # lines; skipped.json has all

flags.disclaim_key_flags()  # the flag belongs to the scripts that ask for it, in their --help too

Found = collections.namedtuple("Found", "examples bad num_listed split")
Found.__doc__ = """A split: the examples to use, (`Example`, error text) of those left out, how many are listed, its name."""


def define():
    flags.DEFINE_enum("on_bad_image", "stop", ["stop", "skip"],
                      "What to do about an image or a label that cannot be used; skip leaves it out and says so.")


def open_split(config, data_dir, split, max_images=None, draw=True):
    """The `Found` of a split, as --on_bad_image says. Raises as `datasets.open_split`, and where nothing is left."""
    if FLAGS.on_bad_image == "stop":
        examples = datasets.open_split(config, data_dir, split, max_images, draw)
        return Found(examples, [], len(examples), split)
    listed, there = datasets.list_split(config, data_dir, split, draw, require_labels=False)
    listed = listed[:max_images]
    good, bad = usable_examples(listed) if there else (listed, [])
    if not good:
        raise DataError("not one of the {} example(s) of {!r} can be used: {}".format(len(listed), split, bad[0][1]))
    return Found(good, [(example, str(error)) for example, error in bad], len(listed), split)


def open_training_split(config, data_dir, split, model_dir=None, draw=True):
    """The `Found` of the split to train on; `model_dir` is that of a run to resume, None for a new one.

    Resumed, it has the examples of the run's beginning; those of them that are bad now are printed.
    """
    before = read(model_dir) if model_dir else {}
    if model_dir is None or (FLAGS.on_bad_image == "stop" and not before):
        return open_split(config, data_dir, split, draw=draw)
    listed, _ = datasets.list_split(config, data_dir, split, draw, require_labels=False)
    out = {entry["name"]: entry["error"] for entry in before.get("skipped", [])}
    examples = [example for example in listed if example.name not in out]
    if before and before["num_listed"] != len(listed):
        raise DataError("{} lists the examples left out of {}, but there are {} now: bring the data set back to what it was, "
                        "or begin another --model_dir".format(
                            os.path.join(model_dir, FILE_NAME), before["num_listed"], len(listed)))
    if FLAGS.on_bad_image == "stop":
        check_examples(examples)
    else:
        good, bad = usable_examples(examples)
        if not good:
            raise DataError("not one of the {} example(s) of {!r} can be used: {}".format(len(listed), split, bad[0][1]))
        for line in _lines("gone bad since the run began, and replaced by the next that can be read", bad):
            print(line, flush=True)
        # An image whose label is gone cannot be read either, and so is replaced.
        examples = [e if e.label_path else e._replace(label_path="(no label)") for e in examples]
    left_out = [(example, out[example.name]) for example in listed if example.name in out]
    return Found(examples, left_out, len(listed), split)


def replaces():
    """Whether the pipeline is to replace what cannot be read while a run lasts."""
    return FLAGS.on_bad_image == "skip"


def describe(found):
    """Lines about what is left out of a split; none where nothing is."""
    return _lines("{} of the {} examples of {!r} left out".format(len(found.bad), found.num_listed, found.split), found.bad)


def _lines(title, bad):
    if not bad:
        return []
    lines = ["{:<10} {}:".format("skipped", title)] + ["           {}".format(error) for _, error in bad[:_SHOWN]]
    return lines + (["           and {} more".format(len(bad) - _SHOWN)] if len(bad) > _SHOWN else [])


def as_json(found):
    """What a file says of the examples left out of a split."""
    return {"split": found.split, "num_listed": found.num_listed,
            "skipped": [{"name": example.name, "error": error} for example, error in found.bad]}


def save(found, model_dir):
    """Writes MODEL_DIR/skipped.json of the split that is trained on, whole or not at all; nothing where none is left out."""
    path = os.path.join(model_dir, FILE_NAME)
    if not found.bad:
        if os.path.exists(path):
            os.remove(path)
        return
    os.makedirs(model_dir, exist_ok=True)
    with open(path + ".partial", "w") as file:
        json.dump(as_json(found), file, indent=2)
        file.write("\n")
    os.replace(path + ".partial", path)


def read(model_dir):
    """What `save` wrote; {} where there is nothing."""
    path = os.path.join(model_dir, FILE_NAME)
    if not os.path.exists(path):
        return {}
    try:
        with open(path) as file:
            content = json.load(file)
        [(entry["name"], entry["error"]) for entry in content["skipped"]], int(content["num_listed"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("{} is no list of skipped examples ({!r}): it is written by train.py, not meant to be "
                         "edited".format(path, error)) from error
    return content
