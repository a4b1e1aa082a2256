"""`replace_unreadable`: nothing changes where all can be read; a bad example's place, and no other, is taken by the next."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from inputs import cityscapes, decoding, pipeline
from tests.inputs import files

NUMBER, STEPS = 5, 6


def elements(examples, **options):
    options = dict({"crop_size": (9, 11), "scale_range": (0.8, 1.4), "num_parallel": 2}, **options)
    with tf.Graph().as_default(), tf.Session() as session:
        element = tf.data.make_one_shot_iterator(pipeline.train_dataset(examples, 4, 7, **options)).get_next()
        return [session.run(element) for _ in range(STEPS)]


@pytest.fixture
def examples(tmp_path):
    for number in range(NUMBER):
        files.write_pair(tmp_path, "n%d" % number, seed=number)
    return cityscapes.list_examples(tmp_path, "train")


@pytest.mark.parametrize("cache", [False, True])
def test_only_the_place_of_a_bad_example_changes(examples, cache, capfd):
    sound = elements(examples, cache=cache)
    for ours, theirs in zip(sound, elements(examples, cache=cache, replace_unreadable=True)):
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
    files.damage(examples[2].image_path, "half")
    files.damage(examples[4].label_path, "empty")
    # What it should be: the same places, and in those of 2 and 4 the files of 3 and, after the last, of 0.
    stand_in = [examples[k]._replace(name="x%d" % k) for k in (0, 1, 3, 3, 0)]
    expected = elements(stand_in, cache=cache)
    found = elements(examples, cache=cache, replace_unreadable=True)
    for ours, theirs in zip(expected, found):
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
    assert any((ours["image"] != theirs["image"]).any() for ours, theirs in zip(sound, found))
    assert examples[2].image_path in capfd.readouterr().err


def test_where_nothing_can_be_read_it_says_so(examples):
    for example in examples:
        files.damage(example.image_path, "text")
    with pytest.raises(tf.errors.OpError) as caught:
        elements(examples, replace_unreadable=True)
    assert "not one of the examples can be read" in str(decoding.data_error(caught.value))
