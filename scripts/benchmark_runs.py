"""Runs contestants in turn, each in a process of its own."""

import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ContestantError(ValueError):
    """Why a contestant gave no result, in one line."""


def in_turn(commands, rounds, run, say=lambda text: None):
    """Runs every contestant once, in order, then all again: A B A B ...

    Args:
        commands: a dict from a contestant's name to its command, a list.
        rounds: how many turns.
        run: called with a command; returns a result or raises `ContestantError`.
        say: called with a line about each run.

    Returns:
        (turns, failed): a list of dicts from contestant to result, and a dict from contestant to why it gave none. Who failed
        once is not run again, and its earlier results are left out: no ratio stands on some of the turns.
    """
    turns, failed = [], {}
    for number in range(rounds):
        turns.append({})
        for name, command in commands.items():
            if name in failed:
                continue
            try:
                turns[-1][name] = run(command)
                say("  turn {} of {}: {}: {}".format(number + 1, rounds, name, _brief(turns[-1][name])))
            except ContestantError as error:
                failed[name] = str(error)
                say("  {} does not run: {}".format(name, error))
    return [{name: result for name, result in turn.items() if name not in failed} for turn in turns], failed


def run(command, timeout=7200):
    """Runs a command to its end; returns the dict of the last line of JSON that it printed.

    Raises:
        ContestantError: it failed, took longer than `timeout` seconds or printed no result.
    """
    environment = dict(os.environ, PYTHONPATH=ROOT, TF_CPP_MIN_LOG_LEVEL="2")
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ContestantError("it took longer than {} s".format(timeout)) from None
    except OSError as error:
        raise ContestantError("cannot start {}: {}".format(command[0], error.strerror or error)) from error
    if done.returncode:
        told = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it printed nothing"]
        raise ContestantError("exit code {}: {}".format(done.returncode, told[-1][:300]))
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise ContestantError("it printed no line of JSON") from None


def _brief(result):
    seconds = sorted(result["step_seconds"])
    return "{:.4g} s, {:.0f} MB".format(seconds[len(seconds) // 2], result["peak_bytes"] / 1e6)
