"""One run at a time in a folder, whatever ended the one before; where nothing can be written a run is refused."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest

from scripts import run_lock
from tests.scripts.command import ROOT

HOLDER = """
import sys, time
from scripts import run_lock
run_lock.take(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def hold(folder):
    """Another process that holds the lock of a folder, until it is killed or gets a line."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               universal_newlines=True, cwd=ROOT, env=dict(os.environ, PYTHONPATH=ROOT))
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_told_process_and_host_of_the_first(tmp_path):
    first = hold(tmp_path)
    try:
        with pytest.raises(ValueError, match="process {} on {}".format(first.pid, socket.gethostname())):
            run_lock.take(str(tmp_path))
        link = tmp_path / "link"
        link.symlink_to(tmp_path, target_is_directory=True)
        with pytest.raises(ValueError, match="in use"):
            run_lock.take(str(link))
    finally:
        first.communicate("\n")
    run_lock.take(str(tmp_path))
    run_lock.take(str(tmp_path))  # its own is no other run
    assert json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()
    run_lock.release(str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["link"]


def test_a_killed_run_leaves_no_lock(tmp_path):
    first = hold(tmp_path)
    first.kill()
    first.communicate()
    assert (tmp_path / "run.lock").exists()
    run_lock.take(str(tmp_path))
    run_lock.release(str(tmp_path))
    assert not os.listdir(str(tmp_path))


def test_a_lock_whose_file_was_taken_away_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    """The holder ends, and removes its file, between this one's opening it and locking it."""
    flock, calls = run_lock.fcntl.flock, []

    def late(file, operation):
        if not calls:
            os.remove(file.name)
        calls.append(file)
        return flock(file, operation)

    monkeypatch.setattr(run_lock.fcntl, "flock", late)
    run_lock.take(str(tmp_path))
    assert len(calls) == 2 and json.loads((tmp_path / "run.lock").read_text())["pid"] == os.getpid()
    run_lock.release(str(tmp_path))


def test_a_file_system_without_locks_is_told_and_used(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(run_lock.fcntl, "flock", refuse)
    told = []
    run_lock.take(str(tmp_path), told.append)
    assert len(told) == 1 and str(tmp_path) in told[0] and "without locks" in told[0]
    assert not os.listdir(str(tmp_path))


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    run_lock.check_writable(str(tmp_path / "new" / "deeper"))
    assert not os.listdir(str(tmp_path))
    for unwritable in ("/proc/towers", "/proc"):  # whoever asks, root too
        with pytest.raises(ValueError, match="--model_dir={} cannot be written".format(unwritable)):
            run_lock.check_writable(unwritable)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written"):
        run_lock.check_writable(str(tmp_path / "file" / "run"))
