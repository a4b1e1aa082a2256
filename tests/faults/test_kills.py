"""kill -9 at random moments: while a run starts, between and in steps, and aimed at the writing of checkpoints.

Every kill is followed by a resumption, and that by the next kill; the end must be that of a run nobody touched, to the bit.
"""

import concurrent.futures
import os
import random
import time

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.faults import runs  # noqa: E402
from tests.scripts.command import succeeded  # noqa: E402

pytestmark = pytest.mark.faults

KILLS = 15  # of each script
STEPS = 100
ARGUMENTS = ["--deterministic", "--max_steps={}".format(STEPS), "--config.max_steps={}".format(STEPS),
             "--config.checkpoint.every_steps=1", "--config.eval.every_steps=20", "--config.log.summary_every_steps=10"]


def half_written(model_dir):
    """Files of a checkpoint that is not whole, in the folder or in best/: a list."""
    found = []
    for folder in (model_dir, os.path.join(model_dir, "best")):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        found += [name for name in names if "tempstate" in name]
        found += [name for name in names if ".data-" in name and "tempstate" not in name
                  and name.split(".data-")[0] + ".index" not in names]
    return found


def kill(running, kind, model_dir, rng):
    """Waits for a moment of this kind and kills; whether the run was there to be killed."""
    if kind == "start":
        time.sleep(rng.uniform(0, 8))
    elif running.wait_for("step", rng.randint(1, 4)):
        if kind == "step":
            time.sleep(rng.uniform(0, .1))
        else:
            began = time.time()
            while running.process.poll() is None and not half_written(model_dir) and time.time() - began < 20:
                time.sleep(.0005)
    alive = running.process.poll() is None
    running.process.kill()
    running.end()
    return alive


def killed_and_resumed(command, model_dir, seed):
    """A run that is killed `KILLS` times and resumed each time: a list of (kind of moment, what it was writing)."""
    rng, kills = random.Random(seed), []
    kinds = ["start", "step", "save"] * (KILLS // 3)
    rng.shuffle(kinds)
    for kind in kinds:
        running = runs.Running(command)
        assert kill(running, kind, model_dir, rng), running.end()[2][-2000:]
        kills.append((kind, half_written(model_dir)))
        assert "error" not in running.end()[2], running.end()[2][-2000:]
    output = succeeded(runs.Running(command).end())
    assert "resumed    at step" in output
    return kills


@pytest.mark.timeout(1500)
def test_a_run_killed_again_and_again_ends_as_one_that_nobody_touched(streets, small_pictures, tmp_path):
    commands = {"train": (runs.segmentation, streets), "train_classifier": (runs.classification, small_pictures)}
    seed = int(os.environ.get("TOWERS_FAULTS_SEED", random.randrange(10**6)))
    print("TOWERS_FAULTS_SEED={}".format(seed))

    def both(name):
        make, data = commands[name]
        whole, pieces = str(tmp_path / name / "whole"), str(tmp_path / name / "pieces")
        succeeded(runs.Running(make(data, whole, *ARGUMENTS)).end())
        return whole, pieces, killed_and_resumed(make(data, pieces, *ARGUMENTS), pieces, seed)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip(commands, pool.map(both, commands)))
    for name, (whole, pieces, kills) in results.items():
        in_saves = sum(bool(writing) for _, writing in kills)
        differing = runs.differing_bits(runs.weights(whole), runs.weights(pieces))
        print("{}: {} kills, {} of them in the middle of writing a checkpoint; every resumption went on; {} of {} values of "
              "the last checkpoint differ".format(name, len(kills), in_saves, len(differing), len(runs.weights(whole))))
        assert len(kills) == KILLS and in_saves > 0
        assert differing == []
        assert runs.verified(pieces) == STEPS
        assert runs.history(pieces) == runs.history(whole)
        assert runs.differing_bits(runs.weights(whole + "/best"), runs.weights(pieces + "/best")) == []
        assert half_written(pieces) == [] and sorted(os.listdir(pieces + "/best")) == sorted(os.listdir(whole + "/best"))
