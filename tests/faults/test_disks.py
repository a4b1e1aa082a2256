"""A disk that is full, read-only or gone, and a folder that another run has: one line, and the last checkpoint as it was."""

import os
import shutil
import socket
import subprocess

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.faults import runs  # noqa: E402
from tests.scripts.command import failed, run, succeeded  # noqa: E402

pytestmark = pytest.mark.faults

SAVING = ["--config.checkpoint.every_steps=2", "--config.eval.every_steps=100000"]
MANY = ["--max_steps=100000", "--config.max_steps=100000"]


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own: a function that mounts it with options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], stderr=subprocess.PIPE)
        if done.returncode:
            pytest.skip("this needs the right to mount a file system: " + done.stderr.decode().strip())
        return folder

    yield mount
    subprocess.run(["umount", "-l", str(folder)], stderr=subprocess.DEVNULL)


def test_a_full_disk_and_what_goes_on_after_it(streets, tmp_path, disk):
    folder = disk("size=40m") / "run"
    running = runs.Running(runs.segmentation(streets, folder, *SAVING, *MANY))
    assert running.wait_for("step", 6)
    filler = tmp_path / "disk" / "filler"
    with open(str(filler), "wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 2**12):
                pass
        except OSError:
            pass
    told = failed(running.end())
    print(told)
    assert "No space left on device" in told
    step = runs.verified(folder)
    assert step >= 2 and not [name for name in os.listdir(str(folder)) if "tempstate" in name]
    os.remove(str(filler))
    output = succeeded(run(*runs.segmentation(
        streets, folder, *SAVING, "--max_steps={}".format(step + 2), "--config.max_steps=100000")))
    assert "resumed    at step {}".format(step) in output


def test_a_disk_that_turns_read_only(streets, tmp_path, disk):
    folder = disk("size=60m") / "run"
    running = runs.Running(runs.segmentation(streets, folder, *SAVING, *MANY))
    assert running.wait_for("step", 6)
    # Lazily, since files are open: new ones are refused all the same.
    if subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], stderr=subprocess.DEVNULL).returncode:
        if subprocess.run(["mount", "--bind", "-o", "ro", str(folder), str(folder)], stderr=subprocess.DEVNULL).returncode:
            running.process.kill()
            pytest.skip("a file system in use cannot be made read-only here")
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    try:
        told = failed(running.end())
        print(told)
        assert "Read-only file system" in told
        assert runs.verified(folder) >= 2
        told = failed(run(*runs.segmentation(streets, folder, *SAVING, *MANY)))
        assert "cannot be written" in told and "Read-only file system" in told
    finally:
        subprocess.run(["umount", "-l", str(folder)], stderr=subprocess.DEVNULL)


def test_a_folder_that_vanishes(streets, tmp_path):
    folder, elsewhere = str(tmp_path / "run"), str(tmp_path / "elsewhere")
    running = runs.Running(runs.segmentation(streets, folder, *SAVING, "--config.log.every_steps=5", *MANY))
    assert running.wait_for("step", 3)
    os.rename(folder, elsewhere)
    told = failed(running.end())
    print(told)
    assert folder in told and not os.path.exists(folder)
    step = runs.verified(elsewhere)
    shutil.move(elsewhere, folder)
    output = succeeded(run(*runs.segmentation(
        streets, folder, *SAVING, "--max_steps={}".format(step + 2), "--config.max_steps=100000")))
    assert "resumed    at step {}".format(step) in output


def test_a_second_run_is_refused_and_reading_is_not(streets, small_pictures, tmp_path):
    for make, data in ((runs.segmentation, streets), (runs.classification, small_pictures)):
        folder = str(tmp_path / make.__name__)
        first = runs.Running(make(data, folder, "--config.checkpoint.every_steps=20", *MANY))
        try:
            assert first.wait_for("step", 30)
            told = failed(run(*make(data, folder, "--config.checkpoint.every_steps=20", *MANY)))
            assert "process {} on {}".format(first.process.pid, socket.gethostname()) in told
            if make is runs.segmentation:
                output = succeeded(run("evaluate", "--model_dir=" + folder, "--data_dir=" + data, "--device_type=cpu"))
                assert "mIoU" in output
            assert first.process.poll() is None
        finally:
            first.process.kill()
            first.end()
        step = runs.verified(folder)
        arguments = ["--max_steps={}".format(step + 1), "--config.max_steps=100000", "--config.checkpoint.every_steps=20"]
        assert "resumed    at step {}".format(step) in succeeded(run(*make(data, folder, *arguments)))


def test_a_latest_checkpoint_that_is_damaged_is_told_and_the_one_before_taken(streets, tmp_path):
    folder = str(tmp_path / "run")
    succeeded(run(*runs.segmentation(streets, folder, *SAVING, "--max_steps=4", "--config.max_steps=8")))
    data = os.path.join(folder, "model.ckpt-4.data-00000-of-00001")
    with open(data, "r+b") as file:
        file.truncate(os.path.getsize(data) // 2)
    code, output, errors = run(*runs.segmentation(streets, folder, *SAVING, "--max_steps=6", "--config.max_steps=8"))
    note, = [line for line in errors.splitlines() if line.startswith("note: checkpoint")]
    assert code == 0 and "model.ckpt-4 is not complete" in note and "goes on from" in note and "resumed    at step 2" in output
    assert runs.verified(folder) == 6 and [entry["step"] for entry in runs.history(folder) if "loss" in entry] == [
        1, 2, 3, 4, 5, 6]
