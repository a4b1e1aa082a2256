"""The training set as one endless sequence: the same for any start, restart, parallelism and cache; and
what it delivers.
"""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from inputs import cityscapes, decoding, labels, pipeline
from tests.inputs import files

CROP = dict(crop_size=(17, 25))
PLAIN = dict(scale_range=(1.0, 1.0), rotate_probability=0.0, blur_probability=0.0, flip_probability=0.0)


def take(dataset, number):
    """The first `number` elements, as NumPy."""
    element = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        return [session.run(element) for _ in range(number)]


def batches(examples, number, *args, **kwargs):
    with tf.Graph().as_default():
        return take(pipeline.train_dataset(examples, *args, **dict(CROP, **kwargs)), number)


def assert_same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert sorted(x) == sorted(y)
        for name in x:
            np.testing.assert_array_equal(x[name], y[name], err_msg=name)


def seven(root):
    """Seven examples of different sizes."""
    for k in range(7):
        files.write_pair(root, "e_%d" % k, size=(20 + k, 30 + 2 * k), seed=k)
    return cityscapes.list_examples(root, "train")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Seven examples that no test may alter."""
    return seven(tmp_path_factory.mktemp("seven"))


@pytest.fixture(scope="module")
def reference(examples):
    """Ten batches of three: what other ways to the same sequence are compared with."""
    return batches(examples, 10, 3, 42)


def order(number, seed, length, start=0, shuffle=True):
    with tf.Graph().as_default():
        got = take(pipeline.example_order(number, seed, start, shuffle), length)
    return [int(d["index"]) for d in got], [int(d["epoch"]) for d in got]


def test_every_epoch_is_a_permutation_and_no_two_are_the_same():
    index, epoch = order(11, 0, 66)
    epochs = [tuple(index[k : k + 11]) for k in range(0, 66, 11)]
    assert epoch == [e for e in range(6) for _ in range(11)]
    assert all(sorted(e) == list(range(11)) for e in epochs)
    assert len(set(epochs)) == 6


def test_permutations_are_uniform():
    # How often each example stands at each place over 600 epochs: chi-squared with 25 degrees of freedom.
    index, _ = order(6, 5, 3600)
    counts = np.zeros((6, 6))
    for k, i in enumerate(index):
        counts[k % 6, i] += 1
    assert ((counts - 100) ** 2 / 100).sum() < 60  # 0.01 %


def test_seeds_give_different_orders():
    assert len({tuple(order(11, seed, 11)[0]) for seed in (0, 1, 2, 2**31, -1)}) == 5


def test_without_shuffling_the_order_is_that_of_the_list():
    assert order(4, 0, 10, shuffle=False) == ([0, 1, 2, 3] * 2 + [0, 1], [0] * 4 + [1] * 4 + [2] * 2)


@pytest.mark.parametrize("start", [1, 10, 11, 12, 25, 55])
def test_the_order_continues_from_any_position(start):
    index, epoch = order(11, 3, 70)
    assert order(11, 3, 15, start) == (index[start : start + 15], epoch[start : start + 15])


def test_a_late_start_is_immediate():
    _, epoch = order(2975, 0, 1, start=37200 * 16)
    assert epoch == [37200 * 16 // 2975]


def test_batches_have_the_promised_shapes_and_types(examples):
    dataset = pipeline.train_dataset(examples, 3, 0, **CROP)
    shapes, types = tf.data.get_output_shapes(dataset), tf.data.get_output_types(dataset)
    assert {k: s.as_list() for k, s in shapes.items()} == {
        "image": [3, 17, 25, 3],
        "label": [3, 17, 25],
        "index": [3],
        "epoch": [3],
    }
    assert types == {"image": tf.float32, "label": tf.int32, "index": tf.int64, "epoch": tf.int64}


@pytest.mark.parametrize("start", [1, 2, 7])
def test_any_start_step_continues_to_the_bit(examples, reference, start):
    assert_same(reference[start:], batches(examples, 10 - start, 3, 42, start_step=start))


def test_two_runs_are_equal_to_the_bit_whatever_the_parallelism(examples, reference):
    assert_same(reference, batches(examples, 10, 3, 42))
    assert_same(reference, batches(examples, 10, 3, 42, num_parallel=5))


def test_memory_changes_nothing(examples, reference):
    assert_same(reference, batches(examples, 10, 3, 42, cache=True))
    assert_same(batches(examples, 4, 3, 1, resize=0.5), batches(examples, 4, 3, 1, resize=0.5, cache=True))


def test_a_cached_set_is_read_once(tmp_path):
    examples = seven(tmp_path)
    with tf.Graph().as_default():
        element = tf.data.make_one_shot_iterator(
            pipeline.train_dataset(examples, 3, 0, cache=True, **CROP)
        ).get_next()
        with tf.Session() as session:
            session.run(element)
            for example in examples:
                files.damage(example.image_path, "empty")
            for _ in range(12):
                session.run(element)


def test_the_last_batch_of_an_epoch_is_filled_from_the_next(reference):
    index = np.concatenate([b["index"] for b in reference])
    epoch = np.concatenate([b["epoch"] for b in reference])
    np.testing.assert_array_equal(epoch, np.arange(30) // 7)
    for start in (0, 7, 14, 21):
        assert sorted(index[start : start + 7]) == list(range(7))


def test_a_batch_may_be_larger_than_the_data_set(examples):
    (got,) = batches(examples[:2], 1, 5, 0)
    np.testing.assert_array_equal(got["epoch"], [0, 0, 1, 1, 2])


def test_batch_size_only_cuts_the_sequence_differently(examples, reference):
    by_six = batches(examples, 5, 6, 42)
    for name in ("image", "label", "index", "epoch"):
        np.testing.assert_array_equal(
            *(np.concatenate([b[name] for b in part]) for part in (reference, by_six))
        )


def test_an_example_is_augmented_anew_in_every_epoch(examples):
    got = batches(examples[:1], 6, 1, 0)
    assert all(b["index"][0] == 0 for b in got)
    for a, b in itertools.combinations(got, 2):
        assert not np.array_equal(a["image"], b["image"])


def test_without_augmentation_a_batch_holds_the_files_pixels(tmp_path):
    written = [files.write_pair(tmp_path, "e_%d" % k, size=(17, 25), seed=k) for k in range(4)]
    (got,) = batches(
        cityscapes.list_examples(tmp_path, "train"),
        1,
        4,
        0,
        mean=(10.0, 20.0, 30.0),
        std=(1.0, 2.0, 4.0),
        **PLAIN,
    )
    for k, index in enumerate(got["index"]):
        image, label = written[index]
        np.testing.assert_allclose(got["image"][k] * [1, 2, 4] + [10, 20, 30], image, atol=1e-4)
        np.testing.assert_array_equal(got["label"][k], labels.label_id_to_train_id[label])


def test_resize_halves_by_averaging(tmp_path):
    image, _ = files.write_pair(tmp_path, "e", size=(34, 50))
    (got,) = batches(
        cityscapes.list_examples(tmp_path, "train"),
        1,
        1,
        0,
        resize=0.5,
        mean=(0.0,) * 3,
        std=(1.0,) * 3,
        **PLAIN,
    )
    np.testing.assert_allclose(got["image"][0], image.reshape(17, 2, 25, 2, 3).mean(axis=(1, 3)), atol=0.51)


def test_evaluation_gives_every_whole_image_once_in_order(examples):
    got = take(pipeline.eval_dataset(examples), 7)
    for k, element in enumerate(got):
        assert (
            element["index"] == k
            and element["image"].dtype == np.uint8
            and element["label"].dtype == np.int32
        )
        np.testing.assert_array_equal(element["image"], decoding.load_image(examples[k].image_path))
        assert element["label"].shape == (20 + k, 30 + 2 * k)
    with pytest.raises(tf.errors.OutOfRangeError):
        take(pipeline.eval_dataset(examples), 8)


@pytest.mark.parametrize("cache", [False, True])
def test_a_bad_file_stops_the_iterator_with_its_name(tmp_path, cache):
    examples = seven(tmp_path)
    files.damage(examples[3].label_path, "half")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        batches(examples, 7, 1, 0, cache=cache)
    assert examples[3].label_path in str(decoding.data_error(caught.value))
    with pytest.raises(tf.errors.InvalidArgumentError, match=examples[3].label_path):
        take(pipeline.eval_dataset(examples), 7)


def test_wrong_values_are_named(examples):
    for kwargs, words in (
        (dict(batch_size=0), "batch_size is 0"),
        (dict(batch_size=2.5), "batch_size"),
        (dict(start_step=-1), "start_step is -1"),
        (dict(resize=0.0), "input.resize"),
        (dict(num_parallel=0), "num_parallel"),
        (dict(scale_range=(2.0, 1.0)), "scale_range"),
    ):
        with pytest.raises(ValueError, match=words):
            pipeline.train_dataset(examples, **dict(dict(batch_size=1, seed=0, **CROP), **kwargs))
    with pytest.raises(ValueError, match="examples"):
        pipeline.train_dataset([], 1, 0, **CROP)
    with pytest.raises(cityscapes.DataError, match=examples[0].image_path):
        pipeline.train_dataset([examples[0]._replace(label_path=None)], 1, 0, **CROP)


def test_real_photographs_keep_their_class_shares(camvid_root):
    # Augmentation moves and scales what is there; over many draws the shares of the large classes stay near
    # the files' own.
    real = cityscapes.list_examples(camvid_root, "train")[:24]
    got = batches(real, 12, 4, 0, crop_size=(185, 249), rotate_probability=0.0)
    counts = sum(np.bincount(b["label"].ravel(), minlength=256) for b in got)[:19]
    true = sum(
        np.bincount(
            labels.label_id_to_train_id[decoding.load_image(e.label_path)[:, :, 0]].ravel(), minlength=256
        )
        for e in real
    )[:19]
    assert np.abs(counts / counts.sum() - true / true.sum()).max() < 0.08
    assert not counts[true == 0].any()
