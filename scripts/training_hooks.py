"""Hooks of the training session that belong to this project: evaluation while it trains."""

import os
import time

import tensorflow.compat.v1 as tf

from scripts import evaluation, history, interruption, progress

METRICS, CURVE, PICTURES = "metrics.json", "curve.png", "pictures"


class EvaluationHook(tf.train.SessionRunHook):
    """Scores the weights every so many steps, in a graph of its own, and writes what came of it.

    A signal ends an evaluation early; a run that is resumed at its step makes it up.

    Args:
        evaluator: a `scripts.evaluation.Evaluator`, or another with a `network` that `evaluate` takes.
        shown: the run's `scripts.progress.Progress`; it counts the steps and prints.
        entries: the run's `scripts.history.History`.
        model_dir: where metrics.json, curve.png and pictures/ go.
        config: the configuration.
        stop_step: the last step of this run; it is scored in any case.
        keep_best: called with (session, step, score) after each evaluation.
        evaluate: scores and writes, and returns the score; by default `evaluate_and_write`, below.
    """

    def __init__(
        self,
        evaluator,
        shown,
        entries,
        model_dir,
        config,
        stop_step,
        keep_best=lambda session, step, score: None,
        evaluate=None,
    ):
        self._evaluator, self._shown, self._entries = evaluator, shown, entries
        self._model_dir, self._config, self._stop_step = model_dir, config, stop_step
        self._keep_best = keep_best
        self._evaluate = evaluate or evaluate_and_write
        wanted = {variable.op.name for variable in evaluator.network.variables}
        self._variables = {v.op.name: v for v in tf.global_variables() if v.op.name in wanted}
        self.interrupted = lambda: False  # whether the run is to stop: `run_training` puts its own here

    def after_create_session(self, session, coord):
        step = self._shown.step
        scored = any(entry["step"] == step and name in entry for entry in self._entries.entries for name in history.SCORES)
        if step > 0 and step % self._config.eval.every_steps == 0 and not scored:
            self._score(session, step)

    def after_run(self, run_context, run_values):
        step = self._shown.step
        if not self._shown.advanced:
            return
        if step % self._config.eval.every_steps == 0 or step == self._stop_step:
            self._score(run_context.session, step)

    def _score(self, session, step):
        def stop_early():
            if self.interrupted():
                raise interruption.Interrupted()

        self._evaluator.before_each = stop_early
        try:
            stop_early()
            self._evaluator.network.load(session.run(self._variables))
            score = self._evaluate(
                self._evaluator, step, self._entries, self._model_dir, self._config, self._shown.say
            )
        except interruption.Interrupted:
            self._shown.say("step {}: not evaluated, or not to the end; the run does that first when it goes on".format(step))
            return
        self._keep_best(session, step, score)


def evaluate_and_write(evaluator, step, entries, model_dir, config, say):
    """Scores the weights that the evaluator holds; writes metrics, pictures and curve; returns the mIoU."""
    began = time.time()
    result = evaluator.run(config.eval.num_pictures)
    miou = result.scores["miou"]
    took = progress.duration(time.time() - began)
    say("step {}: {}, in {}".format(step, evaluation.summary_line(result), took))
    entries.add(step=step, miou=miou if miou == miou else None)
    evaluation.write_metrics(result, step, os.path.join(model_dir, METRICS), split=config.eval_split)
    evaluation.write_pictures(result, os.path.join(model_dir, PICTURES))
    history.draw_curve(entries.entries, os.path.join(model_dir, CURVE), os.path.basename(model_dir))
    return miou
