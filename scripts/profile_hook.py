"""--profile=FIRST,LAST: traces steps of a run, for a viewer of Chrome's traces.

    python scripts/train.py --num_gpus=2 --profile=10,12

writes MODEL_DIR/profile/step_000010.json and so on: when each op of a step ran, on which device and thread, and the memory
that tensors took. Open them in Chrome or Chromium at chrome://tracing, or in Perfetto's viewer in any browser. A traced step
is slower than others.
"""

import os

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline

from scripts.commandline import UsageError

FOLDER = "profile"


def parse(text, start_step, stop_step):
    """(first, last) of --profile; None where it is unset.

    Args:
        text: the flag's value, 'FIRST,LAST' or one step, or None.
        start_step, stop_step: the run takes the steps behind start_step, up to stop_step.

    Raises:
        UsageError: it is no such text, or the run does not take these steps.
    """
    if text is None:
        return None
    try:
        first, last = map(int, text.split(",") if "," in text else (text, text))
    except ValueError:
        first, last = 0, -1
    if not 1 <= first <= last:
        raise UsageError("--profile={}: FIRST,LAST is wanted, two steps such as 10,12, counted from 1".format(text))
    if first <= start_step or last > stop_step:
        takes = "steps {} to {}".format(start_step + 1, stop_step) if start_step < stop_step else "no step"
        raise UsageError("--profile={}: this run takes {}: choose among them, or raise --max_steps".format(text, takes))
    return first, last


class ProfileHook(tf.train.SessionRunHook):
    """Writes a trace of each of the steps `first` to `last` (as from `parse`) into model_dir/profile.

    Args:
        steps: (first, last).
        shown: the run's `scripts.progress.Progress`, which counts steps; it comes before this hook.
        model_dir: the run's folder.
    """

    def __init__(self, steps, shown, model_dir):
        self._first, self._last = steps
        self._shown, self._folder = shown, os.path.join(model_dir, FOLDER)
        self._tracing = False

    def before_run(self, run_context):
        self._tracing = self._first <= self._shown.step + 1 <= self._last
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if self._tracing else None
        return tf.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context, run_values):
        if not (self._tracing and self._shown.advanced):
            return
        trace = timeline.Timeline(run_values.run_metadata.step_stats)
        text = trace.generate_chrome_trace_format(show_dataflow=False, show_memory=True)
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, "step_{:06}.json".format(self._shown.step))
        with open(path + ".partial", "w") as file:
            file.write(text)
        os.replace(path + ".partial", path)
        if self._shown.step == self._last:
            self._shown.say("steps {} to {} traced: open {} in chrome://tracing or Perfetto".format(
                self._first, self._last, os.path.join(self._folder, "step_*.json")))
