"""Small data sets in the Cityscapes layout, and scripts run as a user runs them: as processes."""

import concurrent.futures
import os
import signal
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The smallest network and the smallest schedule; each test adds what it is about.
SMALL = [
    "--config=" + os.path.join(ROOT, "configs", "cityscapes_pspnet50.py"),
    "--device_type=cpu",
    "--max_steps=4",
    "--config.max_steps=8",
    "--config.batch_size=4",
    "--config.input.crop_size=(49,65)",
    "--config.eval.crop_size=(49,65)",
    "--config.model.backbone=thin_resnet",
    "--config.model.width=4",
    "--config.model.pyramid_channels=8",
    "--config.model.head_channels=8",
    "--config.model.aux_channels=8",
    "--config.log.every_steps=1",
    "--config.eval.every_steps=100",
    "--config.eval.num_pictures=2",
    "--config.loss.mean=global",  # so that losses do not depend on the number of towers
]


def train(*arguments):
    """The command line of a small run, with `arguments` in place of those of the same name."""
    given = {str(argument).split("=")[0] for argument in arguments}
    kept = [argument for argument in SMALL if argument.split("=")[0] not in given] + list(arguments)
    # --config=FILE stands before what overrides its values.
    return ["train"] + sorted(kept, key=lambda argument: not str(argument).startswith("--config="))


def draw_street(root, split, number, size=(48, 64)):
    """One drawn scene of sky, road and a car, with labelIds; returns the paths of image and label."""
    from PIL import Image

    rng = np.random.RandomState(number)
    height, width = size
    label = np.full(size, 23, np.uint8)
    label[rng.randint(height // 3, height // 2) :] = 7
    left = rng.randint(width - 24)
    label[height // 2 : height // 2 + 12, left : left + 20] = 26
    label[:3] = 0  # unlabelled
    colors = {0: (0, 0, 0), 23: (150, 180, 250), 7: (90, 80, 90), 26: (180, 30, 30)}
    image = np.zeros(size + (3,), np.float64)
    for value, color in colors.items():
        image[label == value] = color
    image = np.clip(image + rng.normal(scale=12, size=image.shape), 0, 255).astype(np.uint8)
    paths = []
    for kind, suffix, array in (("leftImg8bit", "leftImg8bit", image), ("gtFine", "gtFine_labelIds", label)):
        folder = os.path.join(str(root), kind, split, "town")
        os.makedirs(folder, exist_ok=True)
        paths.append(os.path.join(folder, "town_000000_{:06}_{}.png".format(number, suffix)))
        Image.fromarray(array).save(paths[-1])
    return paths


def draw_streets(root, num_train=6, num_val=3):
    for number in range(num_train):
        draw_street(root, "train", number)
    for number in range(num_val):
        draw_street(root, "val", 100 + number)
    return str(root)


def start(script, *arguments, stdout=subprocess.PIPE):
    """Starts a script from another folder, with no terminal."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, os.path.join(ROOT, "scripts", script + ".py")] + [str(a) for a in arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        universal_newlines=True,
        env=environment,
        cwd=os.path.dirname(ROOT),
        preexec_fn=_as_from_a_terminal,
    )


def _as_from_a_terminal():
    """Tests that a shell runs in the background ignore SIGINT, and a script would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(script, *arguments, timeout=300):
    """Runs a script to its end: (exit code, standard output, standard error)."""
    process = start(script, *arguments)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, output, errors


def run_all(commands):
    """Runs many scripts, two at a time: a dict of results under the keys of the dict `commands`."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = {key: pool.submit(run, *command) for key, command in commands.items()}
        return {key: result.result() for key, result in waiting.items()}


def succeeded(result):
    """What a script printed that must have ended well."""
    code, output, errors = result
    assert code == 0, errors[-3000:]
    return output


def failed(result):
    """The one line on standard error of a script that must have ended with exit code 1 or 2."""
    code, output, errors = result
    told = [line for line in errors.splitlines() if "No GPU is visible" not in line]
    assert code in (1, 2), (code, output[-1000:], errors[-3000:])
    assert len(told) == 1 and told[0].startswith("error: "), errors[-3000:]
    return told[0]
