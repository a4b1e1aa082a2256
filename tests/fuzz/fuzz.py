"""Fuzzes the readers of images, labels and weights: `make test-fuzz`.

    FUZZ_SECONDS=600 python tests/fuzz/fuzz.py                  # all readers, the time shared among them
    python tests/fuzz/fuzz.py png 1234                           # one reader, one seed, with its traceback

Each reader runs in a child process, so that a crash is seen as the death of it and a hang by its silence; both are counted,
the seed is printed, and the next seeds go on. Prints a table; exit code 1 where there was any fault.

FUZZ_SEED (default: the time) is the first seed, FUZZ_PARALLEL (2) the number of children at a time.
"""

import collections
import concurrent.futures
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
READERS = ("png", "jpeg", "label", "npz", "safetensors", "checkpoint", "old_checkpoint", "checkpoint_index")
START, SILENCE = 120, 30  # seconds: until a child's first line, and between lines, before it is said to hang


def fuzz(reader, seed, seconds):
    """(Counter of results, list of faults): `seconds` of seeds from `seed` on, whatever happens to children."""
    counts, faults, until = collections.Counter(), [], None
    while until is None or time.monotonic() < until - 2:
        left = seconds if until is None else until - time.monotonic()
        child = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), reader, str(seed), str(left)], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1)
        lines = _characters(child)
        text, silence = "", START
        while True:
            try:
                character = lines.get(timeout=silence)
            except queue.Empty:
                child.kill()
                child.wait()
                character, text = None, text + " HANGS"
            if character is None:
                break
            silence = SILENCE
            until = until or time.monotonic() + seconds
            text += character
            if character == "\n":
                number, _, result = text.rstrip("\n").partition(" ")
                counts[result if not result.startswith("FAULT") else "fault"] += 1
                if result.startswith("FAULT"):
                    faults.append("{} {}: {}".format(reader, number, result))
                seed, text = int(number) + 1, ""
        code = child.wait()
        if not text and code == 0:
            return counts, faults
        if not text:
            return counts, faults + ["{}: the child ended with code {} before its first file".format(reader, code)]
        kind = "hang" if text.endswith(" HANGS") else "crash"
        counts[kind] += 1
        faults.append("{} {}: {} (exit code {})".format(reader, text.split()[0], kind.upper(), code))
        seed = int(text.split()[0]) + 1 if text.split()[0].isdigit() else seed + 1
        if until is None or counts["crash"] + counts["hang"] > 20:
            return counts, faults
    return counts, faults


def _characters(child):
    """A queue of what a child writes, then None: a queue, unlike a pipe, can be waited for with a limit."""
    found = queue.Queue()

    def pass_on():
        for character in iter(lambda: child.stdout.read(1), ""):
            found.put(character)
        found.put(None)

    threading.Thread(target=pass_on, daemon=True).start()
    return found


def main():
    if len(sys.argv) == 3:
        return one(*sys.argv[1:])
    seconds = float(os.environ.get("FUZZ_SECONDS", "600"))
    parallel = int(os.environ.get("FUZZ_PARALLEL", "2"))
    seed = int(os.environ.get("FUZZ_SEED", str(int(time.time()))))
    share = seconds * parallel / len(READERS)
    print("first seed {}, {:.0f} s a reader".format(seed, share), flush=True)
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        results = dict(zip(READERS, pool.map(lambda reader: fuzz(reader, seed, share), READERS)))
    for reader, (counts, _) in results.items():
        print("{:<18} {:>7} files: {}".format(reader, sum(counts.values()), ", ".join(
            "{} {}".format(number, what) for what, number in sorted(counts.items()))))
    faults = [fault for _, found in results.values() for fault in found]
    print("\n".join(faults[:60]))
    empty = [reader for reader, (counts, _) in results.items() if not counts]
    print("{} fault(s){}".format(len(faults), "; nothing was read by " + ", ".join(empty) if empty else ""))
    return 1 if faults or empty else 0


def one(reader, seed):
    """Reads the file of one seed, here and with the whole traceback."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
    import tempfile

    import numpy as np
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    from tests.fuzz.readers import READERS as classes

    spoilt = classes[reader](tempfile.mkdtemp())
    spoilt.write(spoilt.spoil(np.random.RandomState(int(seed))))
    print(spoilt.path)
    print(spoilt.check())
    return 0


if __name__ == "__main__":
    sys.exit(main())
