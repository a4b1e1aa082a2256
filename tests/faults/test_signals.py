"""SIGTERM and SIGINT at every stage of a run: it ends soon, with its work saved, and goes on as if nothing had been."""

import os
import re
import signal
import time

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.faults import runs  # noqa: E402
from tests.scripts.command import succeeded  # noqa: E402

pytestmark = pytest.mark.faults

MANY = ["--max_steps=100000", "--config.max_steps=100000"]


def signalled(running, *numbers):
    """Sends signals to a run, and waits for its end: ((code, output, errors), seconds)."""
    began = time.time()
    for number in numbers:
        running.process.send_signal(number)
        time.sleep(.02)
    return running.end(), time.time() - began


def stopped_at(result, name):
    """The step that the summary line of a run names, which a signal ended."""
    output = succeeded(result)
    line, = [line for line in output.splitlines() if line.startswith("stopped by")]
    return int(re.match("stopped by {} at step (\\d+): saved".format(name), line).group(1))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_run_with_long_steps_ends_within_one(streets, tmp_path, name):
    """Steps of seconds, so that what the end itself takes is seen beside one."""
    running = runs.Running(runs.segmentation(
        streets, tmp_path / "run", "--config.input.crop_size=(193,257)", "--config.model.width=32",
        "--config.batch_size=16", "--config.eval.every_steps=100000", *MANY))
    assert running.wait_for("step", 3)
    began = time.time()
    assert running.wait_for("step", 5)
    step_time = (time.time() - began) / 2
    time.sleep(step_time / 3)
    result, seconds = signalled(running, getattr(signal, name))
    step = stopped_at(result, name)
    print("{} in a step of {:.1f} s: saved and ended after {:.1f} s".format(name, step_time, seconds))
    assert step == runs.verified(tmp_path / "run") and step in (6, 7)  # what it prints is read a little later
    assert seconds < step_time + 4  # 4 s: saving, and the end of the process, on a busy machine


def test_twice_and_while_it_saves(streets, tmp_path):
    """A second SIGTERM changes nothing. `checkpoint.every_steps` of 1: most of the time it saves."""
    running = runs.Running(runs.segmentation(streets, tmp_path / "run", "--config.checkpoint.every_steps=1", *MANY))
    assert running.wait_for("step", 3)
    while not any("tempstate" in name for name in os.listdir(str(tmp_path / "run"))):
        pass
    result, seconds = signalled(running, signal.SIGTERM, signal.SIGTERM)
    print("SIGTERM twice during a save: ended after {:.1f} s".format(seconds))
    assert stopped_at(result, "SIGTERM") == runs.verified(tmp_path / "run")
    assert not [name for name in os.listdir(str(tmp_path / "run")) if "tempstate" in name or name == "run.lock"]


def test_a_second_interrupt_leaves_the_last_checkpoint(streets, tmp_path):
    running = runs.Running(runs.segmentation(streets, tmp_path / "run", "--config.checkpoint.every_steps=5", *MANY))
    assert running.wait_for("step", 12)
    (code, output, errors), _ = signalled(running, signal.SIGINT, signal.SIGINT)
    assert code in (0, 130) and "Traceback" not in errors
    assert runs.verified(tmp_path / "run") >= 10


def test_during_an_evaluation_which_is_made_up_for(streets, tmp_path):
    arguments = ["--deterministic", "--max_steps=6", "--config.max_steps=6", "--config.eval.every_steps=3",
                 "--config.eval.scales=(" + ",".join(["1.0"] * 40) + ")"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    succeeded(runs.Running(runs.segmentation(streets, whole, *arguments)).end())
    running = runs.Running(runs.segmentation(streets, cut, *arguments))
    assert running.wait_for("step 3/6")
    time.sleep(.3)  # in its first evaluation, which sets up a graph
    result, seconds = signalled(running, signal.SIGTERM)
    print("SIGTERM during an evaluation: ended after {:.1f} s".format(seconds))
    assert stopped_at(result, "SIGTERM") == 3 and "not evaluated" in result[1]
    assert not os.path.exists(str(cut / "metrics.json"))
    assert "step 3: mIoU" in succeeded(runs.Running(runs.segmentation(streets, cut, *arguments)).end())
    assert runs.history(cut) == runs.history(whole)
    assert runs.differing_bits(runs.weights(whole), runs.weights(cut)) == []


@pytest.mark.parametrize("name, code", [("SIGTERM", -signal.SIGTERM), ("SIGINT", 130)])
def test_while_it_starts_it_ends_at_once_and_writes_nothing(streets, tmp_path, name, code):
    running = runs.Running(runs.segmentation(streets, tmp_path / "run", "--deterministic", *MANY))
    assert running.wait_for("bits")  # which is printed before the graph is built
    time.sleep(.5)
    result, seconds = signalled(running, getattr(signal, name))
    print("{} while the graph is built: ended after {:.1f} s".format(name, seconds))
    assert result[0] == code and "Traceback" not in result[2] and seconds < 8  # on a busy machine
    assert not os.path.exists(str(tmp_path / "run"))
