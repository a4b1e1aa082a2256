"""Measures this project against other ways to do the same, and writes BENCHMARKS.md.

    python scripts/benchmark.py                              small networks and crops: minutes
    python scripts/benchmark.py --suite=full                 the sizes that claims are made for: hours
    python scripts/benchmark.py --suite=full --only=keras,rate --rounds=5
    python scripts/benchmark.py --list                       what there is to run, with its commands

Contestants run in turn (A B A B ...), each in a process of its own; run it on an idle machine. Beside --output the raw results
go into runs/benchmark_SUITE.json, to which a run with --only adds. PyTorch is looked for in the Python of --torch_python.
"""

import importlib.metadata
import json
import os
import platform
import re
import shlex
import signal
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from absl import flags

from scripts import benchmark_contests, benchmark_report, benchmark_runs, commandline
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
flags.DEFINE_enum("suite", "quick", benchmark_contests.SUITES, "Sizes: quick takes minutes, full hours.")
flags.DEFINE_list("only", None, "Names of contests to run, with commas between; unset: all.")
flags.DEFINE_integer("rounds", None, "How often each contestant runs; unset: 2 in the suite quick, 3 in full.", lower_bound=1)
flags.DEFINE_integer("steps", None, "Timed steps of each process; unset: as many as suit the contest.", lower_bound=1)
flags.DEFINE_string("torch_python", None, "A Python that has torch and numpy; unset: .venv-torch/bin/python, else this one.")
flags.DEFINE_string("output", os.path.join(ROOT, "BENCHMARKS.md"), "Markdown file to write.")
flags.DEFINE_string("results", None, "JSON file to write, and to go on from; unset: runs/benchmark_SUITE.json.")
flags.DEFINE_bool("list", False, "Print the contests with their commands, and run nothing.")

ROUNDS = {"quick": 2, "full": 3}
PACKAGES = ("tensorflow", "tf_keras", "numpy", "opencv-python-headless")


def main():
    contests = benchmark_contests.contests(FLAGS.suite, FLAGS.steps, sys.executable, torch_python())
    chosen = choose(contests)
    if FLAGS.list:
        for contest in chosen:
            print("{}: {}".format(contest.name, contest.about))
            print("\n".join("    " + shown(command) for command in contest.commands.values()))
        return
    path = os.path.abspath(FLAGS.results or os.path.join(ROOT, "runs", "benchmark_{}.json".format(FLAGS.suite)))
    for flag, folder in (("output", os.path.dirname(os.path.abspath(FLAGS.output))), ("results", os.path.dirname(path))):
        if flag == "results" and FLAGS.results is None:
            os.makedirs(folder, exist_ok=True)
        if not os.path.isdir(folder):
            raise UsageError("--{}={}: its folder does not exist".format(flag, getattr(FLAGS, flag)))
    facts = machine()
    results = earlier(path, facts)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    for contest in chosen:
        others = busy()
        print("{}: {}".format(contest.name, contest.about), flush=True)
        if others and others > 0.05:
            print("  the machine is not idle ({:.0%} of its processors are busy): times will vary".format(others), flush=True)
        turns, failed = benchmark_runs.in_turn(
            contest.commands, FLAGS.rounds or ROUNDS[FLAGS.suite], benchmark_runs.run, lambda line: print(line, flush=True))
        results[contest.name] = {"turns": turns, "failed": failed, "busy": others,
                                 "commands": [shown(command) for command in contest.commands.values()]}
        write(path, json.dumps({"suite": FLAGS.suite, "machine": facts, "contests": results}, indent=1) + "\n")
        write(FLAGS.output, benchmark_report.document(contests, results, FLAGS.suite, with_torch(facts, results)))
    print("\n" + benchmark_report.table(chosen, results))
    print("\nwritten: {} and {}".format(FLAGS.output, path))


def choose(contests):
    """Those that --only names; UsageError for a name that there is not."""
    names = [contest.name for contest in contests]
    wrong = [name for name in FLAGS.only or () if name not in names]
    if wrong:
        raise UsageError("--only={}: the contests are {}".format(",".join(FLAGS.only), ", ".join(names)))
    return [contest for contest in contests if not FLAGS.only or contest.name in FLAGS.only]


def torch_python():
    own = os.path.join(ROOT, ".venv-torch", "bin", "python")
    return FLAGS.torch_python or (own if os.path.exists(own) else sys.executable)


def shown(command):
    """A command as it is typed in the repository."""
    return " ".join(["python"] + [shlex.quote(word) for word in command[1:]])


def earlier(path, facts):
    """Results of this machine from before; {} where there are none, or where machine or versions were others."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        content = json.load(file)
    if (content.get("machine"), content.get("suite")) != (facts, FLAGS.suite):
        print("{} is of another machine, suite or versions: starting anew".format(path))
        return {}
    return content["contests"]


def machine():
    """A dict of what ratios depend on."""
    facts = {"processor": _first(r"model name\s*:\s*(.*)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
             "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()}
    memory = _first(r"MemTotal:\s*(\d+) kB", "/proc/meminfo")
    if memory:
        facts["memory"] = "{:.1f} GB".format(int(memory) * 1024 / 1e9)
    facts["system"] = "{} {}".format(platform.system(), platform.machine())
    facts["Python"] = platform.python_version()
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def busy(seconds=1.0):
    """The share of the processors, 0 to 1, that all processes of the machine take now; None where Linux does not say."""

    def times():
        with open("/proc/stat") as file:
            return [int(text) for text in file.readline().split()[1:9]]  # user, nice, system, idle, waiting for disks, ...

    try:
        before = times()
        time.sleep(seconds)
        spent = [after - then for then, after in zip(before, times())]
    except (OSError, ValueError):
        return None
    return 1 - (spent[3] + spent[4]) / max(sum(spent), 1)


def with_torch(facts, results):
    """The facts, and the version of PyTorch that ran."""
    found = {shown["versions"]["torch"] for result in results.values() for turn in result["turns"] for shown in turn.values()
             if "torch" in shown["versions"]}
    return dict(facts, torch=", ".join(sorted(found)) or "not run")


def write(path, text):
    """Writes a file whole or not at all."""
    with open(path + ".partial", "w") as file:
        file.write(text)
    os.replace(path + ".partial", path)


def _first(pattern, path):
    try:
        with open(path) as file:
            found = re.search(pattern, file.read())
    except OSError:
        return None
    return found.group(1).strip() if found else None


if __name__ == "__main__":
    commandline.run(main)
