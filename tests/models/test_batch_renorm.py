import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models.batch_renorm import sync_batch_renorm

STEPS, MOMENTUM, EPSILON, R_MAX, D_MAX = 4, .8, 1e-3, 1.5, .5


def numpy_steps(batches):
    """Outputs and state of `STEPS` steps on whole batches, in float64."""
    moving_mean, moving_variance, outputs = np.zeros(3), np.ones(3), []
    for x in batches:
        mean, variance = x.mean(0), x.var(0)
        s, moving_s = np.sqrt(variance + EPSILON), np.sqrt(moving_variance + EPSILON)
        r = np.clip(s / moving_s, 1 / R_MAX, R_MAX)
        d = np.clip((mean - moving_mean) / moving_s, -D_MAX, D_MAX)
        outputs.append((x - mean) / s * r + d)
        moving_mean = MOMENTUM * moving_mean + (1 - MOMENTUM) * mean
        moving_variance = MOMENTUM * moving_variance + (1 - MOMENTUM) * variance
    return outputs, moving_mean, moving_variance


@pytest.mark.parametrize("num_towers", [1, 2, 3])
def test_state_of_a_users_own_layer_is_kept_across_steps(num_towers):
    batches = [2 + step + np.random.RandomState(step).randn(7, 3) for step in range(STEPS)]
    expected, moving_mean, moving_variance = numpy_steps(batches)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [7, 3])
        devices = towers.tower_devices(num_towers, "cpu")

        def model(part):
            y = sync_batch_renorm(part, R_MAX, D_MAX, MOMENTUM, EPSILON, name="renorm")
            return {"loss": tf.reduce_mean(y), "y": y}

        step = towers.build_train_step(
            model, towers.split_batch(x, num_towers), tf.train.GradientDescentOptimizer(0.), devices)
        with tf.Session(config=towers.session_config(devices)) as session:
            session.run(tf.global_variables_initializer())
            for batch, y in zip(batches, expected):
                _, outputs = session.run([step.train_op, [output["y"] for output in step.outputs]], {x: batch})
                np.testing.assert_allclose(np.concatenate(outputs), y, rtol=1e-10, atol=1e-10)
            state = {v.op.name: session.run(v) for v in tf.global_variables()}
    np.testing.assert_allclose(state["renorm/moving_mean"], moving_mean, rtol=1e-10)
    np.testing.assert_allclose(state["renorm/moving_variance"], moving_variance, rtol=1e-10)
    assert len(step.update_ops) == 2
