"""`run_training` on several workers: the run of one process, the same bits on all, one end for all."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles, training_worker
from tests.towers.test_cluster import ROOT, free_ports
from towers import session as towers_session


class Run(object):
    """Workers of one run, each with a model_dir of its own."""

    def __init__(self, folder, max_steps, count=2, settings=None, own=None):
        *ports, heartbeat = free_ports(count + 1)
        hosts = ",".join("127.0.0.1:%d" % port for port in ports)
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
        self.outputs = [str(folder / ("%d.out" % i)) for i in range(count)]
        self.processes = []
        for i, path in enumerate(self.outputs):
            all_settings = dict({"num_towers": 1, "port": heartbeat}, **(settings or {}))
            all_settings.update((own or {}).get(i, {}))
            with open(path, "w") as output:
                self.processes.append(subprocess.Popen(
                    [sys.executable, "-m", "tests.towers.training_worker", hosts, str(i), str(folder / ("model_%d" % i)),
                     str(max_steps), json.dumps(all_settings)], cwd=ROOT, env=environment, stdout=output, stderr=output))

    def text(self, worker):
        with open(self.outputs[worker]) as file:
            return file.read()

    def wait_for(self, worker, text):
        end = time.time() + 120
        while text not in self.text(worker):
            assert time.time() < end and self.processes[worker].poll() is None, self.text(worker)[-2000:]
            time.sleep(.05)

    def codes(self):
        try:
            return [process.wait(120) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def results(self):
        assert self.codes() == [0] * len(self.processes), [self.text(i)[-2000:] for i in range(len(self.processes))]
        return [json.loads([line for line in self.text(i).splitlines() if line.startswith('{"step"')][-1])
                for i in range(len(self.processes))]


def alone(model_dir, max_steps, num_towers, accumulate_steps=1):
    """The losses of one process with so many towers."""
    with tf.Graph().as_default():
        step = training_worker.build_step(oracles.CPUS[:num_towers], {"accumulate_steps": accumulate_steps})
        recorder = training_worker.Recorder(step, 0)
        towers_session.run_training(step, str(model_dir), max_steps, hooks=[recorder],
                                    config=towers.session_config(oracles.CPUS[:num_towers]))
        return recorder.losses


@pytest.mark.long
def test_a_run_in_pieces_on_two_workers_is_that_of_one_process(tmp_path):
    first = Run(tmp_path, 3, settings={"accumulate_steps": 2}).results()
    assert not glob.glob(str(tmp_path / "model_1" / "*")), "the chief alone writes"
    second = Run(tmp_path, 6, settings={"accumulate_steps": 2}).results()  # worker 1 has no checkpoint, and needs none
    losses = [one["losses"] + two["losses"] for one, two in zip(first, second)]
    assert losses[0] == losses[1]
    np.testing.assert_allclose(losses[0], alone(tmp_path / "alone", 6, 2, 2), atol=1e-4)
    assert [result["step"] for result in second] == [6, 6] and [result["signal"] for result in second] == [None, None]
    assert second[0]["values"] == second[1]["values"] and len(second[0]["values"]) > 6  # bit for bit


@pytest.mark.long
@pytest.mark.parametrize("number,worker", [(signal.SIGTERM, 1), (signal.SIGINT, 0)])
def test_a_signal_to_any_worker_stops_all_at_one_step_with_a_checkpoint(tmp_path, number, worker):
    run = Run(tmp_path, 1000, settings={"seconds": .1}, count=3)
    run.wait_for(worker, "step 4\n")
    run.processes[worker].send_signal(number)
    results = run.results()
    assert len(set(result["step"] for result in results)) == 1 and 4 <= results[0]["step"] < 20
    assert results[0]["values"] == results[1]["values"] == results[2]["values"]
    for result in results:
        assert result["signal"].startswith("%s of worker %d (" % (signal.Signals(number).name, worker))
    assert os.path.exists(str(tmp_path / "model_0" / ("model.ckpt-%d.index" % results[0]["step"])))


@pytest.mark.long
def test_a_loss_that_is_not_finite_on_one_worker_stops_all(tmp_path):
    run = Run(tmp_path, 10, settings={"nan_at": (1, 3)})
    assert 0 not in run.codes()
    assert "NonFiniteLossError: the loss of tower 0 is nan at step" in run.text(1)
    assert "worker 1 (" in run.text(0) or "NonFiniteLossError" in run.text(0)
    assert not [path for path in glob.glob(str(tmp_path / "model_0" / "model.ckpt-*.index")) if "ckpt-0." not in path]


@pytest.mark.long
@pytest.mark.parametrize("own,says", [({"num_towers": 2}, "towers: 1 on worker 0"), ({"facts": {"a": 1}}, "a: (absent) on")])
def test_workers_of_different_runs_are_refused(tmp_path, own, says):
    run = Run(tmp_path, 3, own={1: own})
    assert run.codes() == [1, 1]
    for i in (0, 1):
        assert "WorkersError: workers differ in " + says in run.text(i)
    assert not (tmp_path / "model_0").exists()
