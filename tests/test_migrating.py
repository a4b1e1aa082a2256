"""The blocks of MIGRATING.md that are marked *after* build, and train."""

import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "MIGRATING.md")
with open(PATH, encoding="utf-8") as _file:
    BLOCKS = re.findall(r"^## From (.*?)\n.*?^```python after\n(.*?)^```", _file.read(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [block for _, block in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_what_a_reader_would_write_trains(block):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        random = np.random.RandomState(0)
        names = {"tf": tf, "towers": towers, "images": tf.constant(random.randn(4, 9, 9, 3), tf.float32),
                 "labels": tf.constant([0, 1, 1, 0])}
        exec(compile(block, PATH, "exec"), names)
        with tf.Session(config=towers.session_config(towers.tower_devices(2))) as session:
            session.run(tf.global_variables_initializer())
            before = session.run(tf.global_variables("bn1/moving_mean|batch_normalization/moving_mean")[0])
            losses = [session.run([names["step"].train_op, names["step"].loss])[1] for _ in range(8)]
            after = session.run(tf.global_variables("bn1/moving_mean|batch_normalization/moving_mean")[0])
    assert losses[-1] < losses[0]
    assert np.abs(after - before).min() > 0


def test_every_starting_point_has_an_after():
    with open(PATH, encoding="utf-8") as file:
        assert len(BLOCKS) == len(re.findall(r"^## From ", file.read(), re.MULTILINE)) == 4
