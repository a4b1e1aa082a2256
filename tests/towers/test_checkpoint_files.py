"""What a kill, a full disk or a power failure leaves in a run's folder, and what is gone on from."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towers import checkpoint_files, saving


@pytest.fixture
def folder(tmp_path):
    """Checkpoints of steps 2, 4 and 6, in each the value of `w` that is its step."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [1000], initializer=tf.zeros_initializer())
        saver = saving.CheckpointSaver(max_to_keep=3, save_relative_paths=True)
        session.run(tf.global_variables_initializer())
        for number in (2, 4, 6):
            session.run([w.assign(np.full(1000, number)), step.assign(number)])
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=number)
    return str(tmp_path)


def cut(path):
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


def remove(path):
    os.remove(path)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))


DATA, INDEX = ".data-00000-of-00001", ".index"


@pytest.mark.parametrize("damage", [cut, remove, flip])
@pytest.mark.parametrize("suffix", [DATA, INDEX])
def test_what_is_damaged_is_passed_over_for_the_one_before(folder, damage, suffix):
    if (damage, suffix) == (flip, INDEX):
        pytest.skip("one bit of a block that holds no entry may be of no consequence")
    latest = os.path.join(folder, "model.ckpt-6")
    damage(latest + suffix)
    found = checkpoint_files.latest_complete(folder)
    assert found.path == os.path.join(folder, "model.ckpt-4") and found.step == 4
    assert [path for path, _ in found.passed_over] == [latest] and found.passed_over[0][1]
    checkpoint_files.mend(folder)
    assert tf.train.latest_checkpoint(folder) == found.path
    state = tf.train.get_checkpoint_state(folder)
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-2", "model.ckpt-4"]
    assert checkpoint_files.latest_complete(folder).passed_over == []
    assert (tf.train.load_variable(found.path, "w") == 4).all()


def test_the_one_that_is_named_is_taken_though_a_later_one_is_there(folder):
    """A kill between writing a checkpoint and naming it; or a user who goes back."""
    with open(os.path.join(folder, "checkpoint"), "w") as file:
        file.write('model_checkpoint_path: "model.ckpt-4"\nall_model_checkpoint_paths: "model.ckpt-4"\n')
    assert checkpoint_files.latest_complete(folder)[:2] == (os.path.join(folder, "model.ckpt-4"), 4)


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0\0", b"model_checkpoint_path: \"mod"])
def test_without_a_sound_file_that_names_it_the_last_complete_one_is_taken(folder, content):
    path = os.path.join(folder, "checkpoint")
    os.remove(path)
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    cut(os.path.join(folder, "model.ckpt-6" + DATA))
    found = checkpoint_files.mend(folder)
    assert found.step == 4 and tf.train.latest_checkpoint(folder) == found.path


def test_nothing_complete_and_nothing_at_all(folder, tmp_path):
    for number in (2, 4, 6):
        cut(os.path.join(folder, "model.ckpt-%d" % number + DATA))
    found = checkpoint_files.mend(folder)
    assert found[:2] == (None, 0) and len(found.passed_over) == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    assert checkpoint_files.mend(str(empty)) == (None, 0, [])


def test_what_a_kill_leaves_half_written_is_taken_away_and_nothing_else(folder):
    before = sorted(os.listdir(folder))
    os.mkdir(os.path.join(folder, "best"))
    for name in ("model.ckpt-8.data-00000-of-00001.tempstate1234567", "model.ckpt-8.index.tempstate77", "config.json.partial",
                 "model.ckpt-9.data-00000-of-00001"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("x")
    assert checkpoint_files.mend(folder).step == 6
    assert sorted(os.listdir(folder)) == sorted(before + ["best"])


def test_a_failed_save_says_why_and_what_is_left(folder, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        saver = saving.CheckpointSaver()
        session.run(tf.global_variables_initializer())
        gone = tmp_path / "gone" / "model.ckpt"
        with pytest.raises(saving.SaveError, match="step 3 cannot be saved in .*gone .it is not there any more"):
            saver.save(session, str(gone), global_step=3)
        assert not gone.parent.exists()
        os.mkdir(os.path.join(folder, "model.ckpt-8.data-00000-of-00001"))  # which no file can replace
        with pytest.raises(saving.SaveError, match="model.ckpt-6 is complete") as caught:
            saver.save(session, os.path.join(folder, "model.ckpt"), global_step=8)
        assert "\n" not in str(caught.value)
    assert not [name for name in os.listdir(folder) if "tempstate" in name]
