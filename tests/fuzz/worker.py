"""The child process of `fuzz.py`: spoils and reads, one seed after the other, and says of each on a line of its own.

    python worker.py READER FIRST_SEED SECONDS

writes `SEED` before each file is read and ` read`, ` refused` or ` FAULT what` after it: the last line of a process that
died or hangs names the seed.
"""

import os
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def main(name, seed, seconds):
    import numpy as np
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    from tests.fuzz.readers import READERS

    with tempfile.TemporaryDirectory() as folder:
        reader = READERS[name](folder)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            content = reader.spoil(np.random.RandomState(seed))
            reader.write(content)
            sys.stdout.write(str(seed))
            sys.stdout.flush()
            try:
                result = reader.check()
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                result = "FAULT {}: {} ({}:{})".format(
                    type(error).__name__, " ".join(str(error).split())[:300], os.path.basename(place.filename), place.lineno)
            sys.stdout.write(" " + result + "\n")
            sys.stdout.flush()
            seed += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
