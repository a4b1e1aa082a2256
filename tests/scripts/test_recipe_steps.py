"""Five steps of the recipes against SGD with momentum written out in NumPy: schedule, decay and multipliers.

A PSPNet of three channels in float64, trained by what train.py runs. The oracle takes its gradients from a graph of its
own, on one device, of the batch's loss as the recipe states it; everything after that is NumPy:

    v ← 0.9·v + g + λ·w        w ← w - 0.01 · (1 - i/max)^0.9 · m · v
"""

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import cityscapes_pspnet50, cityscapes_pspnet101_864  # noqa: E402
from models import pspnet  # noqa: E402
from scripts import network  # noqa: E402

STEPS, MAX_STEPS = 5, 7


def small(recipe):
    """The recipe on a network and a schedule that a test can afford; dropout off, as its masks are no arithmetic."""
    config = recipe.get_config()
    config.max_steps, config.batch_size = MAX_STEPS, 4
    config.model.backbone, config.model.width, config.model.dropout = "thin_resnet", 3, 0.0
    config.model.pyramid_channels = config.model.head_channels = config.model.aux_channels = 4
    config.model.pyramid_bins = (1, 2)
    return config


def batches(size):
    rng = np.random.RandomState(3)
    for _ in range(STEPS):
        labels = rng.randint(0, 19, (4, size, size)).astype(np.int32)
        labels[:1, : size // 2] = 255  # towers have different numbers of valid pixels
        yield rng.normal(size=(4, size, size, 3)), labels


def placeholders(size):
    return tf.placeholder(tf.float64, [4, size, size, 3]), tf.placeholder(tf.int32, [4, size, size])


def load(session, variables, values):
    """Feeds each variable's initial value with one of `values`: dicts by name."""
    session.run([v.initializer for v in variables.values()],
                {v.initializer.inputs[1]: values[name] for name, v in variables.items()})


def trained_by_the_scripts(config, size, num_towers):
    """The parameters before and after five steps: two dicts from names to float64 arrays."""
    tf.reset_default_graph()
    tf.set_random_seed(1)
    image, label = placeholders(size)
    devices = towers.tower_devices(num_towers, "cpu")
    step, _ = network.train_step(config, towers.split_batch({"image": image, "label": label}, num_towers), devices)
    variables = {v.op.name: v for v in tf.trainable_variables()}
    with tf.Session(config=towers.session_config(devices)) as session:
        session.run(tf.global_variables_initializer())
        # Biases and betas start at 0, gammas at 1, where a wrong decay would hardly show: move them.
        rng = np.random.RandomState(5)
        before = {name: value + rng.uniform(0.1, 0.4, value.shape)
                  for name, value in sorted(session.run(variables).items())}
        load(session, variables, before)
        for pixels, classes in batches(size):
            session.run(step.train_op, {image: pixels, label: classes})
        return before, session.run(variables)


def mean_loss(logits, labels, groups):
    """The mean over valid pixels of each group of images, then over groups."""
    losses = []
    for part in np.split(np.arange(4), groups):
        z, y = (tf.reshape(tf.gather(t, part), shape) for t, shape in ((logits, [-1, 19]), (labels, [-1])))
        picked = tf.where(tf.not_equal(y, 255))[:, 0]
        z, y = tf.gather(z, picked), tf.gather(y, picked)
        right = tf.reduce_sum(z * tf.one_hot(y, 19, dtype=tf.float64), axis=1)
        losses.append(tf.reduce_mean(tf.reduce_logsumexp(z, axis=1) - right))
    return sum(losses) / groups


def trained_by_numpy(config, size, groups, head_lr, decays, parameters):
    """The parameters after five steps, from those before."""
    parameters = dict(parameters)
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    with tf.Graph().as_default():
        image, label = placeholders(size)
        outputs = towers.build(
            lambda x: pspnet.pspnet(x, config.model, 19), [(image,)], towers.tower_devices(1, "cpu"), training=True)[0]
        loss = sum(weight * mean_loss(outputs[name], label, groups)
                   for weight, name in ((1.0, "logits"), (0.4, "aux_logits")))
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for i, (pixels, classes) in enumerate(batches(size)):
                load(session, {variable.op.name: variable for variable in variables}, parameters)
                found = session.run(gradients, {image: pixels, label: classes})
                rate = 0.01 * (1 - i / MAX_STEPS) ** 0.9
                for variable, gradient in zip(variables, found):
                    name = variable.op.name
                    w, multiplier = parameters[name], head_lr if name.startswith("pspnet/") else 1
                    decay = 1e-4 if decays(w) else 0
                    velocity[name] = 0.9 * velocity[name] + gradient + decay * w
                    parameters[name] = w - rate * multiplier * velocity[name]
    return parameters


def everything(parameter):
    return True


def convolution_kernels(parameter):
    return parameter.ndim == 4


@pytest.mark.parametrize("num_towers, recipe, size, by_tower, head_lr, decays", [
    (1, cityscapes_pspnet50, 17, True, 10, everything),
    (2, cityscapes_pspnet50, 17, True, 10, everything),
    (2, cityscapes_pspnet101_864, 16, False, 1, convolution_kernels),
], ids=["cityscapes_pspnet50-1", "cityscapes_pspnet50-2", "cityscapes_pspnet101_864-2"])
def test_five_steps_equal_numpy(num_towers, recipe, size, by_tower, head_lr, decays):
    config = small(recipe)
    before, after = trained_by_the_scripts(config, size, num_towers)
    groups = num_towers if by_tower else 1
    wanted = trained_by_numpy(config, size, groups, head_lr, decays, before)
    assert set(after) == set(wanted) and len(after) > 50
    for name, value in wanted.items():
        moved = np.abs(value - before[name]).max()
        assert moved > 0, name
        # The schedule is float32: its rates are right to 6e-8.
        np.testing.assert_allclose(after[name], value, rtol=0, atol=1e-6 * moved + 1e-13, err_msg=name)
