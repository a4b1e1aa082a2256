"""Workers of one run that are killed or stopped at random moments: the others end in time and say who it was; all resume.

Each row that is printed: the moment, the worker, the seconds until the other ended, its exit code, its last line.
"""

import glob
import os
import random
import re
import signal
import threading
import time

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from scripts import launch_local  # noqa: E402
from tests.scripts.command import draw_streets, start, train  # noqa: E402

LIMIT = 60  # seconds
WAIT = 40


class Worker:
    """A worker, and the lines it has printed so far."""

    def __init__(self, index, hosts, heartbeat, data_dir, model_dir, *arguments):
        self.index, self.name, self.output, self.errors = index, hosts[index], [], []
        self.process = start(*train(
            "--data_dir=" + data_dir, "--model_dir=" + model_dir, "--worker_hosts=" + ",".join(hosts),
            "--task_index={}".format(index), "--heartbeat_port={}".format(heartbeat), "--worker_wait={}".format(WAIT),
            "--config.max_steps=1000", "--config.checkpoint.every_steps=1", "--config.eval.every_steps=3", *arguments))
        for stream, lines in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            threading.Thread(target=lambda stream=stream, lines=lines: lines.extend(iter(stream.readline, "")),
                             daemon=True).start()

    def wait_for(self, pattern, count=1):
        """Until so many lines match; fails where the process ends before."""
        end = time.monotonic() + 180
        while sum(bool(re.search(pattern, line)) for line in list(self.output)) < count:
            assert self.process.poll() is None and time.monotonic() < end, (self.output[-5:], self.errors[-5:])
            time.sleep(.01)


@pytest.fixture
def cluster(tmp_path):
    """A function that starts workers of one run in one model_dir; (workers to start, workers that are listed)."""
    data_dir, model_dir, made = draw_streets(tmp_path / "streets"), str(tmp_path / "run"), []

    def begin(number=2, listed=None, max_steps=1000):
        *ports, heartbeat = launch_local.free_ports((listed or number) + 1)
        hosts = ["127.0.0.1:{}".format(port) for port in ports]
        workers = [Worker(i, hosts, heartbeat, data_dir, model_dir, "--max_steps={}".format(max_steps)) for i in range(number)]
        made.extend(workers)
        return workers

    begin.model_dir = model_dir
    yield begin
    for worker in made:
        if worker.process.poll() is None:
            worker.process.kill()


def until(moment, workers, model_dir, rng):
    """Waits until a moment has come."""
    chief = workers[0]
    if moment == "start-up":
        time.sleep(rng.uniform(2, 20))
    elif moment == "waiting":
        chief.wait_for("waiting for worker 2")
    elif moment == "steps":
        chief.wait_for("^step .*loss", rng.randint(1, 5))
        time.sleep(rng.uniform(0, .3))
    elif moment == "checkpoint":
        chief.wait_for("^step .*loss", rng.randint(1, 4))
        end = time.monotonic() + 60
        while not glob.glob(os.path.join(model_dir, "*temp*")) and time.monotonic() < end:
            time.sleep(.0005)
    elif moment == "evaluation":
        chief.wait_for("^step .*[0369]/.*loss|^step .*loss", 3)
        time.sleep(rng.uniform(0, .5))


def stop_one(moment, number, begin, rng):
    """Sends a signal to one of two workers at a moment; returns the row about the other."""
    workers = begin(2, 3 if moment == "waiting" else 2)
    until(moment, workers, begin.model_dir, rng)
    victim = rng.choice(workers)
    other = workers[1 - victim.index]
    victim.process.send_signal(number)
    began = time.monotonic()
    code = other.process.wait(LIMIT)
    took = time.monotonic() - began
    victim.process.kill()
    time.sleep(.2)
    told = [line.strip() for line in other.errors if line.startswith("error: ")]
    row = "{:<10} {:<7} worker {}: the other ended after {:4.1f} s, exit code {}: {}".format(
        moment, signal.Signals(number).name, victim.index, took, code, told)
    print(row, flush=True)
    assert code != 0 and took < LIMIT, row
    assert len(told) == 1 and "worker {} ({})".format(victim.index, victim.name) in told[0], row
    return took


def goes_on(begin):
    """A restart of all goes on from the last checkpoint to an end."""
    found = [int(re.search(r"ckpt-(\d+)", path).group(1)) for path in glob.glob(begin.model_dir + "/model.ckpt-*.index")]
    step = max(found + [0])
    workers = begin(2, max_steps=step + 2)
    codes = [worker.process.wait(240) for worker in workers]
    time.sleep(.3)
    assert codes == [0, 0], [worker.errors[-3:] for worker in workers]
    resumed = re.search(r"resumed +at step (\d+)", "".join(workers[0].output))
    assert not found or step - 1 <= int(resumed.group(1)) <= step  # a save that was cut off is not gone on from
    assert any("done: step {}".format(step + 2) in line for line in workers[1].output)
    print("restarted: goes on at step {}".format(resumed.group(1) if resumed else 0), flush=True)


@pytest.mark.faults
@pytest.mark.timeout(3000)
def test_a_worker_killed_at_any_moment_ends_the_others_and_a_restart_resumes(cluster):
    rng = random.Random(int(os.environ.get("TOWERS_FAULTS_SEED", "0")))
    moments = ["start-up"] * 2 + ["steps"] * 3 + ["checkpoint"] * 2 + ["evaluation"] + ["waiting"] * 2
    took = [stop_one(moment, signal.SIGKILL, cluster, rng) for moment in moments]
    goes_on(cluster)
    print("{} kills, {:.1f} s at most".format(len(took), max(took)))


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_worker_that_hangs_ends_the_others_and_a_restart_resumes(cluster):
    stop_one("steps", signal.SIGSTOP, cluster, random.Random(1))
    goes_on(cluster)


@pytest.mark.long
def test_a_killed_worker_ends_the_others(cluster):
    stop_one("steps", signal.SIGKILL, cluster, random.Random(2))
