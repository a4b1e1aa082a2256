"""What every contestant measures in the same way: seconds of a repeated action, and the peak of resident memory.

Needs nothing but the standard library, so that a contestant in another environment can use it. The seconds of an action are
wall time; beside them stands the CPU time of the whole process, which other processes disturb less.
"""

import importlib.metadata
import json
import re
import sys
import time


def timed(run, steps, warmup=1):
    """Runs an action `warmup` times, then `steps` times.

    Args:
        run: called without arguments; what it returns as the first loss is kept.
        steps: runs that are timed.
        warmup: runs before them, in which graphs are set up and memory is first taken.

    Returns:
        A dict of first_loss (what the very first run returned), step_seconds and step_cpu_seconds (lists), and peak_bytes.
    """
    results, seconds, cpu_seconds = [], [], []
    for number in range(warmup + steps):
        wall, cpu = time.perf_counter(), time.process_time()
        results.append(run())
        if number >= warmup:
            seconds.append(time.perf_counter() - wall)
            cpu_seconds.append(time.process_time() - cpu)
    return {"first_loss": results[0], "step_seconds": seconds, "step_cpu_seconds": cpu_seconds, "peak_bytes": peak_bytes()}


def peak_bytes():
    """The largest resident size of this process so far, in bytes.

    Linux's own figure for the memory of this program: what getrusage says may be that of the process that started it.
    """
    try:
        with open("/proc/self/status") as file:
            return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", file.read()).group(1))
    except (OSError, AttributeError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def report(result, packages=()):
    """Prints a result, with the versions of packages, as the one line of JSON that the driver reads."""
    versions = {"python": "{}.{}.{}".format(*sys.version_info[:3])}
    for package in packages:
        versions[package] = importlib.metadata.version(package)
    print(json.dumps(dict(result, versions=versions)), flush=True)
