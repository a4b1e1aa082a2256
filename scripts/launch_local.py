"""Starts several workers of one run on this machine: to try what a run on several machines does.

    python scripts/launch_local.py --workers=2 --num_gpus=2 --max_steps=20
    python scripts/launch_local.py --workers=2 --script=train_classifier --data_dir=/data/cifar-10-batches-bin

All flags but these go to the script. Each line of output begins with its worker's number; where there are GPUs, each worker
is given --num_gpus of its own. SIGTERM and SIGINT are passed on. When one worker fails, all are stopped, and the exit code is
that of the one that failed first (128 and the signal's number of one that was killed).
"""

import argparse
import glob
import os
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("train", "train_classifier")
OTHERS_FAILED = 3  # see `scripts.commandline`
END_BY_THEMSELVES, END_WHEN_TOLD = 10, 30  # seconds


class Launch:
    """The processes of one run.

    Args:
        commands: one command line a worker.
        environments: what each has in its environment besides this process's.
        out: called with each line of output.
    """

    def __init__(self, commands, environments, out):
        self._out = out
        self.processes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                             env=dict(os.environ, PYTHONUNBUFFERED="1", **environment),
                             start_new_session=True)  # a terminal's Ctrl-C would reach them twice
            for command, environment in zip(commands, environments)]
        self._readers = [threading.Thread(target=self._relay, args=each, daemon=True) for each in enumerate(self.processes)]
        for reader in self._readers:
            reader.start()

    def send(self, number):
        """Sends a signal to all that run."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def wait(self):
        """Waits until all have ended, stopping them when one fails; returns the exit code."""
        codes, first = self._codes(), 0
        while not any(codes) and None in codes:
            time.sleep(0.1)
            codes = self._codes()
        if any(codes):
            first = next(code for code in codes if code)
            if self._all_ended(END_BY_THEMSELVES) or self._all_ended(END_WHEN_TOLD, signal.SIGTERM):
                codes = self._codes()
            else:
                self.send(signal.SIGKILL)
                self._all_ended(END_WHEN_TOLD)
            if first == OTHERS_FAILED:  # which of them was the first is known by its code
                first = next((code for code in codes if code not in (None, 0, OTHERS_FAILED)), first)
        for reader in self._readers:
            reader.join(5)
        return 128 - first if first < 0 else first

    def _codes(self):
        return [process.poll() for process in self.processes]

    def _all_ended(self, seconds, number=None):
        if number is not None:
            self.send(number)
        until = time.monotonic() + seconds
        while None in self._codes() and time.monotonic() < until:
            time.sleep(0.1)
        return None not in self._codes()

    def _relay(self, index, process):
        for line in process.stdout:
            self._out("[{}] {}".format(index, line.decode(errors="backslashreplace").rstrip("\n")))


def free_ports(count):
    """Ports that no one listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def commands(script, num_workers, arguments):
    """The command line of each worker."""
    *ports, heartbeat = free_ports(num_workers + 1)
    hosts = ",".join("127.0.0.1:{}".format(port) for port in ports)
    return [[sys.executable, os.path.join(HERE, script + ".py"), *arguments, "--worker_hosts=" + hosts,
             "--task_index={}".format(index), "--heartbeat_port={}".format(heartbeat)] for index in range(num_workers)]


def environments(num_workers, num_gpus, gpus):
    """What tells each worker of its GPUs; nothing where there are none."""
    if not gpus:
        return [{} for _ in range(num_workers)]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[index * num_gpus:(index + 1) * num_gpus])} for index in range(num_workers)]


def visible_gpus():
    """The GPUs that CUDA programs may use here, as CUDA_VISIBLE_DEVICES names them: a list of strings."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip() and name.strip() != "-1"]
    return [str(index) for index in range(len(glob.glob("/proc/driver/nvidia/gpus/*")))]


def main(arguments=None):
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__, usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--script", choices=SCRIPTS, default="train", help="what each of them runs")
    parser.add_argument("--num_gpus", type=int, default=1, help="towers of each worker")
    parser.add_argument("--device_type", choices=("cpu", "gpu"), help="what towers run on")
    own, rest = parser.parse_known_args(arguments)
    given = [name for name in ("worker_hosts", "task_index") if any(a.lstrip("-").split("=")[0] == name for a in rest)]
    gpus = [] if own.device_type == "cpu" else visible_gpus()
    if own.workers < 1 or own.num_gpus < 1:
        parser.exit(2, "error: --workers={} --num_gpus={}: at least 1 of each is wanted\n".format(own.workers, own.num_gpus))
    if given:
        parser.exit(2, "error: --{} is given by launch_local.py itself: leave it out\n".format(given[0]))
    if gpus and len(gpus) < own.workers * own.num_gpus:
        parser.exit(2, "error: {} workers of {} GPUs want {}, but {} can be seen: use fewer, or --device_type=cpu\n".format(
            own.workers, own.num_gpus, own.workers * own.num_gpus, len(gpus)))
    rest += ["--num_gpus={}".format(own.num_gpus)] + (["--device_type=" + own.device_type] if own.device_type else [])
    launch = Launch(commands(own.script, own.workers, rest), environments(own.workers, own.num_gpus, gpus),
                    lambda line: print(line, flush=True))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: launch.send(number))
    return launch.wait()


if __name__ == "__main__":
    sys.exit(main())
