"""Runs scripts as a user does, many for the price of one: imports what they need once and forks for each.

A child executes the script's file as `__main__` with its command line, in a process of its own: flags, exit code and
standard error are those of a process that was started afresh, without its six seconds of imports. No session is opened
before the fork, as TensorFlow's threads would not live on in the child.

    python fork_server.py < lines of JSON: [script, argument, ...]
    > a line of JSON for each: [exit code or "hangs", standard output, standard error]
"""

import json
import os
import runpy
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 120  # until a script is said to hang


def preload():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import cityscapesscripts.helpers.labels  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import ml_collections.config_flags  # noqa: F401
    import PIL.Image  # noqa: F401
    import safetensors.numpy  # noqa: F401
    import tensorflow
    import tqdm  # noqa: F401
    tensorflow.compat.v1.disable_eager_execution()  # also loads what the first use of the name would
    tensorflow.config.list_physical_devices("GPU")  # tells once that there is none


def run(script, arguments, output, errors):
    """In the child: becomes the script. Returns its exit code."""
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    sys.argv = [os.path.join(ROOT, "scripts", script + ".py")] + arguments
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        return 0
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(script, arguments):
    """[exit code, standard output, standard error]; the code is "hangs" for what was ended here, below 0 for a signal."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os._exit(run(script, arguments, output, errors))
        code, until = None, time.monotonic() + SECONDS
        while code is None:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            elif time.monotonic() > until:
                os.kill(child, 9)
                os.waitpid(child, 0)
                code = "hangs"
            else:
                time.sleep(0.01)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return [code] + texts


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    preload()
    for line in sys.stdin:
        script, *arguments = json.loads(line)
        answers.write(json.dumps(answer(script, arguments)) + "\n")
        answers.flush()
