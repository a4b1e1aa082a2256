"""train.py and launch_local.py on several workers of this machine: the run of one, refusals, signals, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from scripts import launch_local  # noqa: E402
from tests.scripts.command import ROOT, failed, run, succeeded, train  # noqa: E402


def launched(*arguments):
    """Starts launch_local.py with two workers of a small train.py."""
    return subprocess.Popen([sys.executable, os.path.join(ROOT, "scripts", "launch_local.py"), "--workers=2"] +
                            train(*arguments)[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            universal_newlines=True, cwd=os.path.dirname(ROOT))


def losses(model_dir):
    with open(os.path.join(model_dir, "history.jsonl")) as file:
        return [entry["loss"] for entry in map(json.loads, file) if "loss" in entry]


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["--config.accumulate_steps=2", "--config.recompute=True", "--config.batch_size=6"]])
def test_two_workers_of_one_tower_are_one_worker_of_two(streets, tmp_path, more):
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    succeeded(run(*train("--data_dir=" + streets, "--model_dir=" + whole, "--num_gpus=2", *more)))
    process = launched("--data_dir=" + streets, "--model_dir=" + parts, "--num_gpus=1", *more)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    np.testing.assert_allclose(losses(parts), losses(whole), atol=1e-4)
    assert len(losses(parts)) == 4
    assert "[0] step 4/4" in output and "[1] done: step 4" in output and "[1] step" not in output


@pytest.mark.long
def test_a_signal_is_passed_on_and_all_go_on_from_what_was_saved(streets, tmp_path):
    arguments = ["--data_dir=" + streets, "--model_dir={}".format(tmp_path / "run"), "--config.max_steps=100000"]
    process = launched("--max_steps=100000", *arguments)
    for line in process.stdout:
        if re.match(r"\[0\] step +3/", line):
            process.send_signal(signal.SIGTERM)
            break
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    step = int(re.search(r"\[0\] stopped by SIGTERM of worker \d .* at step (\d+): saved", output).group(1))
    assert re.search(r"\[1\] stopped by SIGTERM of worker \d .* at step {}".format(step), output)
    process = launched("--max_steps={}".format(step + 1), *arguments)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and "resumed    at step {}".format(step) in output, output[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("arguments,says", [
    (["--worker_hosts=a:1,b:1"], "--task_index is missing"), (["--task_index=1"], "--task_index=1 says nothing"),
    (["--worker_hosts=a:1,b", "--task_index=0"], "'b' in hosts"),
])
def test_flags_that_name_no_cluster_are_refused(streets, tmp_path, arguments, says):
    told = failed(run(*train("--data_dir=" + streets, "--model_dir={}".format(tmp_path), *arguments)))
    assert says in told


def sleeps(*codes):
    """Command lines that end with such codes, one after the other; 'hang' does not."""
    return [[sys.executable, "-c", "import time; time.sleep(999)" if code == "hang" else
             "import os, time; print({0!r}); time.sleep({1}); os._exit({0})".format(code, .3 * i)]
            for i, code in enumerate(codes)]


@pytest.mark.parametrize("codes,exits", [((0, 0), 0), ((0, 7), 7), ((3, 5), 5), ((4, "hang"), 4)])
def test_the_exit_code_is_that_of_the_worker_that_failed(monkeypatch, codes, exits):
    monkeypatch.setattr(launch_local, "END_BY_THEMSELVES", 1)
    lines, began = [], time.monotonic()
    launch = launch_local.Launch(sleeps(*codes), [{}] * len(codes), lines.append)
    assert launch.wait() == exits and time.monotonic() - began < 20
    assert "[0] {}".format(codes[0]) in lines


def test_each_worker_is_given_gpus_of_its_own():
    assert launch_local.environments(2, 2, list("0123")) == [
        {"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}]
    assert launch_local.environments(2, 2, []) == [{}, {}]
