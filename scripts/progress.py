"""Progress of a run: a bar on a terminal, a line every so many steps elsewhere.

Speed is measured from step to step without what lies between them (evaluation, saving), and without the first
step, in which TensorFlow sets up its graph.
"""

import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
import tqdm


class Progress(tf.train.SessionRunHook):
    """Shows step, loss, learning rate, images/s and time left, and adds them to the history.

    Args:
        train_step: the `towers.TrainStep`.
        learning_rate: scalar tensor.
        batch_size: images a step, of all towers.
        stop_step: the last step of this run.
        every_steps: how often to log; the first and last step of a run always are.
        history: a `scripts.history.History`.
        terminal: whether to draw a bar; by default where the output is a terminal.
    """

    def __init__(self, train_step, learning_rate, batch_size, stop_step, every_steps, history, terminal=None):
        self._fetches = {"loss": train_step.loss, "learning_rate": learning_rate}
        self._global_step = train_step.global_step
        self._may_skip = train_step.loss_scale is not None  # a float16 step that overflows is not one
        self.advanced = True
        self._batch_size, self._stop_step, self._every_steps = batch_size, stop_step, every_steps
        self._history = history
        self._terminal = _can_draw(sys.stdout) if terminal is None else terminal
        self._bar = None

    def after_create_session(self, session, coord):
        self.step = self._first = int(session.run(self._global_step))
        self._seconds, self._rate = [], None
        if self._terminal:
            self._bar = tqdm.tqdm(
                total=self._stop_step, initial=self.step, unit="step", dynamic_ncols=True, file=sys.stdout
            )

    def before_run(self, run_context):
        self._began = time.perf_counter()
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        before, self.step = self.step, self.step + 1
        if self._may_skip:
            self.step = int(run_context.session.run(self._global_step))
        self.advanced = self.step > before
        if not self.advanced:
            return
        if self.step > self._first + 1:
            self._seconds.append(time.perf_counter() - self._began)
        if self._bar is not None:
            self._bar.update(1)
        if self.step == self._first + 1 or self.step % self._every_steps == 0 or self.step == self._stop_step:
            self._log(**{name: float(value) for name, value in run_values.results.items()})

    def end(self, session):
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def say(self, text):
        """Prints a line without breaking the bar."""
        if self._bar is not None:
            self._bar.write(text)
        else:
            print(text, flush=True)

    def _log(self, loss, learning_rate):
        if self._seconds:
            self._rate = self._batch_size / np.mean(self._seconds)
            self._seconds = []
        self._history.add(
            step=self.step,
            loss=loss,
            learning_rate=learning_rate,
            images_per_second=self._rate and round(self._rate, 3),
        )
        rate = "{:.3g} images/s".format(self._rate) if self._rate else "first step"
        if self._bar is not None:
            self._bar.set_postfix_str("loss {:.4f}, lr {:.3g}, {}".format(loss, learning_rate, rate))
            return
        left = ""
        if self._rate:
            left = "  {} left".format(duration((self._stop_step - self.step) * self._batch_size / self._rate))
        step = "{:>{}}/{}".format(self.step, len(str(self._stop_step)), self._stop_step)
        self.say("step {}  loss {:.4f}  lr {:.3g}  {}{}".format(step, loss, learning_rate, rate, left))


def _can_draw(stream):
    """Whether a bar would be seen: on a terminal that knows its size (some pseudo-terminals say 0 by 0)."""
    return stream.isatty() and min(os.get_terminal_size(stream.fileno())) > 1


def duration(seconds):
    """Seconds as text: '45 s', '3:07 min', '2:05 h', '3 d 4 h'."""
    seconds = int(round(seconds))
    if seconds < 60:
        return "{} s".format(seconds)
    if seconds < 3600:
        return "{}:{:02} min".format(seconds // 60, seconds % 60)
    if seconds < 86400:
        return "{}:{:02} h".format(seconds // 3600, seconds % 3600 // 60)
    return "{} d {} h".format(seconds // 86400, seconds % 86400 // 3600)
