"""The whole training, examples to update, is the same for one tower and for four at the same total batch.

Dropout off and the loss a global mean: then the losses differ by rounding only, which 20 steps may amplify. With
each tower's own batch statistics they differ at once.
"""

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import synthetic_pspnet  # noqa: E402
from inputs import cityscapes, pipeline  # noqa: E402
from scripts import network  # noqa: E402

STEPS = 20


@pytest.fixture(scope="module")
def run(streets):
    """A function of the number of towers and the norm: losses [STEPS], images seen, and the first weights."""
    kept = {}

    def train(num_towers, norm, again=0):
        if (num_towers, norm, again) not in kept:
            with tf.Graph().as_default():
                kept[num_towers, norm, again] = _train(streets, num_towers, norm)
        return kept[num_towers, norm, again]

    return train


def _train(streets, num_towers, norm):
    config = synthetic_pspnet.get_config()
    config.batch_size = 4
    config.model.width, config.model.norm, config.model.dropout = 8, norm, 0.0
    config.model.pyramid_channels = config.model.head_channels = config.model.aux_channels = 16
    config.input.crop_size = (49, 65)
    config.optimizer.learning_rate = 0.02
    devices = towers.tower_devices(num_towers, "cpu")
    tf.set_random_seed(config.seed)
    examples = cityscapes.list_examples(streets, "train")
    data = pipeline.train_dataset(examples, config.batch_size, config.seed, **config.input.to_dict())
    batch = tf.data.make_one_shot_iterator(data).get_next()
    parts = towers.split_batch({"image": batch["image"], "label": batch["label"]}, num_towers)
    optimizer = tf.train.MomentumOptimizer(config.optimizer.learning_rate, config.optimizer.momentum)
    step = towers.build_train_step(network.training_model(config), parts, optimizer, devices,
                                   gradient_transform=network.gradient_transform(config))
    with tf.Session(config=towers.session_config(devices)) as session:
        session.run(tf.global_variables_initializer())
        weights = session.run({variable.op.name: variable for variable in tf.trainable_variables()})
        seen = [session.run([step.train_op, step.loss, batch["index"]])[1:] for _ in range(STEPS)]
    return np.array([loss for loss, _ in seen]), np.array([index for _, index in seen]), weights


def test_one_and_four_towers_start_from_the_same_weights_and_see_the_same_examples(run):
    (_, one_seen, one), (_, four_seen, four) = run(1, "sync"), run(4, "sync")
    assert np.array_equal(one_seen, four_seen)
    assert one.keys() == four.keys()
    for name in one:
        assert np.array_equal(one[name], four[name]), name


def test_one_and_four_towers_with_sync_bn_have_the_same_losses(run):
    one, four = run(1, "sync")[0], run(4, "sync")[0]
    assert abs(one[0] - four[0]) < 1e-4
    assert np.abs(one - four).max() < 1e-2  # the last of the 20 included
    assert one[-1] < 0.7 * one[0]  # it learns: the agreement is not that of a standstill


def test_plain_batch_norm_has_not(run):
    one, four = run(1, "plain")[0], run(4, "plain")[0]
    assert abs(one[0] - run(1, "sync")[0][0]) < 1e-4  # on one tower, plain and sync are the same
    assert abs(one[0] - four[0]) > 1e-3  # ten times what sync BN may differ by
    assert np.abs(one - four).max() > 2e-2


def test_the_same_run_twice_has_the_same_losses_to_the_bit(run):
    for again in (1, 2):
        assert np.array_equal(run(4, "sync")[0], run(4, "sync", again=again)[0])


def test_no_sum_of_the_training_graph_depends_on_timing():
    # `AddN` of three or more begins with whichever input nobody else needs any more: another order, other bits.
    config = synthetic_pspnet.get_config()
    config.model.width = 8
    example = {"image": tf.zeros([4, 49, 65, 3]), "label": tf.zeros([4, 49, 65], tf.int32)}
    towers.build_train_step(network.training_model(config), towers.split_batch(example, 4),
                            tf.train.MomentumOptimizer(0.1, 0.9), towers.tower_devices(4, "cpu"),
                            gradient_transform=network.gradient_transform(config))
    sums = [op for op in tf.get_default_graph().get_operations()
            if op.type == "AddN" and op.outputs[0].dtype.is_floating]
    assert len(sums) > 100
    assert not [op.name for op in sums if len(op.inputs) > 2]
