"""--profile: traces of the steps that were asked for, that a viewer can read, of what the towers did."""

import json
import os

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from scripts import profile_hook  # noqa: E402
from scripts.commandline import UsageError  # noqa: E402
from tests.inputs import cifar10_files  # noqa: E402
from tests.scripts.command import failed, run, run_all, succeeded, train  # noqa: E402


@pytest.mark.parametrize("text, start, stop, steps", [
    (None, 0, 4, None), ("2,3", 0, 4, (2, 3)), ("4", 0, 4, (4, 4)), ("1,4", 0, 4, (1, 4)), ("6,7", 5, 9, (6, 7))])
def test_steps_of_the_run_are_taken(text, start, stop, steps):
    assert profile_hook.parse(text, start, stop) == steps


@pytest.mark.parametrize("text, start, stop, told", [
    ("a", 0, 4, "FIRST,LAST is wanted"), ("3,2", 0, 4, "FIRST,LAST is wanted"), ("0,2", 0, 4, "counted from 1"),
    ("1,2,3", 0, 4, "FIRST,LAST is wanted"), ("", 0, 4, "FIRST,LAST is wanted"), ("3,5", 0, 4, "takes steps 1 to 4"),
    ("5,6", 5, 9, "takes steps 6 to 9"), ("3", 4, 4, "takes no step")])
def test_other_steps_are_refused(text, start, stop, told):
    with pytest.raises(UsageError, match=told):
        profile_hook.parse(text, start, stop)


def traces(model_dir):
    """A dict from file name to the events of a trace in Chrome's format."""
    folder = os.path.join(model_dir, "profile")
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            found[name] = json.load(file)["traceEvents"]
    return found


def test_both_training_scripts_write_traces_of_what_the_towers_did(streets, tmp_path):
    pictures = cifar10_files.write(tmp_path / "cifar", batch=8, test=4)[0]
    segmenter, classifier = str(tmp_path / "segmenter"), str(tmp_path / "classifier")
    outputs = run_all({
        "segmenter": train("--data_dir=" + streets, "--model_dir=" + segmenter, "--num_gpus=2", "--profile=2,3"),
        "classifier": ["train_classifier", "--device_type=cpu", "--data_dir=" + pictures, "--model_dir=" + classifier,
                       "--num_gpus=2", "--max_steps=2", "--profile=2", "--config.batch_size=8", "--config.model.units=1",
                       "--config.model.width=4", "--config.eval.batch_size=4"]})
    assert "steps 2 to 3 traced" in succeeded(outputs["segmenter"])
    assert "steps 2 to 2 traced" in succeeded(outputs["classifier"])
    assert list(traces(classifier)) == ["step_000002.json"]
    found = traces(segmenter)
    assert list(found) == ["step_000002.json", "step_000003.json"]
    for events in list(found.values()) + list(traces(classifier).values()):
        timed = [event for event in events if event["ph"] == "X"]  # with a beginning and a duration
        assert all(event["dur"] >= 0 and event["ts"] > 0 for event in timed)
        ops = {event["args"].get("op") for event in timed}  # convolutions may be oneDNN's, of longer names
        assert "ResourceApplyMomentum" in ops and any("Conv2DBackpropFilter" in str(op) for op in ops), ops
        named = " ".join(str(event["args"].get("name")) for event in timed)
        assert "tower_0/" in named and "tower_1/" in named
        devices = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert any("CPU:0 Compute" in name for name in devices) and any("CPU:1 Compute" in name for name in devices)


def test_steps_that_a_run_does_not_take_leave_nothing_behind(streets, tmp_path):
    model_dir = str(tmp_path / "run")
    told = failed(run(*train("--data_dir=" + streets, "--model_dir=" + model_dir, "--num_gpus=1", "--profile=4,5")))
    assert "--profile=4,5: this run takes steps 1 to 4" in told and not os.path.exists(model_dir)
