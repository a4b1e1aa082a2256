"""A worker's share of the batches: what the whole batch has in those places, and nothing else is read."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from inputs import cifar10, pipeline
from tests.inputs import cifar10_files
from tests.scripts.command import draw_streets


def batches(dataset, count=3):
    with tf.Session() as session:
        following = tf.data.make_one_shot_iterator(dataset).get_next()
        return [session.run(following) for _ in range(count)]


def check(dataset, batch_size, num_workers, num_towers):
    """`dataset(share)` is a data set: the workers' shares, one behind the other, are the whole batches."""
    with tf.Graph().as_default():
        whole = batches(dataset(None))
        hosts = ["h:%d" % (i + 1) for i in range(num_workers)]
        shares = [towers.Cluster(hosts, i).share(batch_size, num_towers) for i in range(num_workers)]
        parts = [batches(dataset(share)) for share in shares]
    assert [len(part[0]["index"]) for part in parts] == [number for _, number in shares]
    for step, batch in enumerate(whole):
        for name, value in batch.items():
            np.testing.assert_array_equal(np.concatenate([part[step][name] for part in parts]), value)


@pytest.mark.long
@pytest.mark.parametrize("batch_size,num_workers,num_towers", [(4, 2, 1), (5, 2, 2)])
def test_shares_of_scenes_make_up_the_batch(tmp_path, batch_size, num_workers, num_towers):
    from inputs import cityscapes

    examples = cityscapes.list_examples(draw_streets(tmp_path), "train")
    check(lambda share: pipeline.train_dataset(examples, batch_size, 3, 5, crop_size=(33, 41), share=share),
          batch_size, num_workers, num_towers)


def test_shares_of_pictures_make_up_the_batch(tmp_path):
    root = str(cifar10_files.write(tmp_path, batch=7, test=5)[0])
    split = cifar10.open_split(root, "train")
    check(lambda share: cifar10.train_dataset(split, 6, 3, 5, share=share), 6, 2, 2)


def test_what_others_read_is_not_read(tmp_path):
    from inputs import cityscapes

    examples = cityscapes.list_examples(draw_streets(tmp_path), "train")
    keywords = dict(crop_size=(33, 41), shuffle=False, cache=False)
    gone = [e._replace(image_path=e.image_path + ".gone") if i % 2 else e for i, e in enumerate(examples)]
    with tf.Graph().as_default():
        found = batches(pipeline.train_dataset(gone, 2, 3, share=(0, 1), **keywords))
        assert [int(batch["index"][0]) for batch in found] == [0, 2, 4]
        with pytest.raises(tf.errors.OpError):
            batches(pipeline.train_dataset(gone, 2, 3, share=(1, 1), **keywords), 1)


def test_a_share_outside_of_the_batch_is_refused(tmp_path):
    from inputs import cityscapes

    examples = cityscapes.list_examples(draw_streets(tmp_path), "train")
    with pytest.raises(ValueError, match="share"):
        pipeline.train_dataset(examples, 4, 3, crop_size=(33, 41), share=(3, 2))


@pytest.mark.parametrize("batch_size,num_workers,num_towers", [(8, 2, 2), (7, 2, 2), (11, 4, 2), (5, 5, 1)])
def test_shares_are_split_over_towers_as_the_whole_batch_is(batch_size, num_workers, num_towers):
    whole = towers.split_batch(tf.range(batch_size), num_workers * num_towers)
    shares = [towers.Cluster(["h:%d" % (i + 1) for i in range(num_workers)], k).share(batch_size, num_towers)
              for k in range(num_workers)]
    parts = [part for first, number in shares for part in towers.split_batch(tf.range(first, first + number), num_towers)]
    with tf.Session() as session:
        for part, wanted in zip(*session.run([parts, whole])):
            np.testing.assert_array_equal(part, wanted)
