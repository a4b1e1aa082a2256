"""import_weights.py as a process, and runs of train.py that start from what it, or a run of before, wrote."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

from configs import cityscapes_pspnet50  # noqa: E402
from models import pretrained  # noqa: E402
from scripts import configuration, initial_weights  # noqa: E402
from tests.models import pretrained_names as names  # noqa: E402
from tests.models.test_pretrained_conversion import save  # noqa: E402
from tests.scripts.command import failed, run, run_all, succeeded, train  # noqa: E402


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A trained PSPNet-50 under semseg's names: its file, and what every array is here."""
    path = names.write(tmp_path_factory.mktemp("weights") / "train_epoch_200.pth", "semseg")
    return path, names.weights("semseg", names.UNITS["resnet50"])[1]


def stored(prefix):
    return pretrained.read(prefix)


def test_the_command_writes_a_checkpoint_with_every_variable(weights, tmp_path):
    output = str(tmp_path / "imported")
    told = succeeded(run("import_weights", "--weights=" + weights[0], "--format=semseg", "--output=" + output))
    assert "problems       0" in told and "OIHW to HWIO" in told and "batch counter" in told
    assert sorted(os.listdir(output)) == [
        "checkpoint", "config.json", "model.ckpt-0.data-00000-of-00001", "model.ckpt-0.index"]
    found = stored(tf.train.latest_checkpoint(output))
    assert found.pop("global_step") == 0
    np.testing.assert_allclose(found.pop("imported/input_mean"), [123.675, 116.28, 103.53])
    np.testing.assert_allclose(found.pop("imported/input_std"), [58.395, 57.12, 57.375])
    assert set(found) == set(weights[1])
    for name, value in weights[1].items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    # The whole network: evaluate.py and predict.py find what they need.
    assert json.load(open(os.path.join(output, "config.json")))["model"]["backbone"] == "resnet50"


def test_what_cannot_be_imported_ends_in_one_line_and_writes_nothing(weights, tmp_path):
    archive = tmp_path / "resnet_v1_101_2016_08_28.tar.gz"
    archive.write_bytes(b"\x1f\x8b" + b"0" * 100)
    output = tmp_path / "output"
    given = {"weights": weights[0], "format": "semseg", "output": output}
    cases = {
        "another stem": (dict(given, format="torchvision"), ["model.stem is 'deep'", "--config.model.stem=7x7"]),
        "an archive": (dict(given, weights=archive), ["gzip archive: unpack"]),
        "a deeper network": (dict(given, **{"config.model.backbone": "resnet101"}),
                             ["resnet/stage3/unit10/bn1/beta: missing in the file", "more", "--allow"]),
    }
    results = run_all({case: ["import_weights"] + ["--{}={}".format(*item) for item in flags.items()]
                       for case, (flags, _) in cases.items()})
    for case, (_, wanted) in cases.items():
        line = failed(results[case])
        assert all(text in line for text in wanted), (case, line)
    assert "problems     255" in results["a deeper network"][1]
    assert os.listdir(str(tmp_path)) == [archive.name]


def test_a_run_starts_from_a_checkpoint_and_resumes_without_it(streets, trained, tmp_path):
    model_dir = str(tmp_path / "run")
    arguments = ["--num_gpus=1", "--data_dir=" + streets, "--model_dir=" + model_dir, "--max_steps=1",
                 "--config.eval.flip=false", "--config.optimizer.learning_rate=1e-20", "--config.eval.max_images=1",
                 "--config.batch_size=2"]
    told = succeeded(run(*train("--config.init_checkpoint=" + trained[0], *arguments)))
    assert "94 of 94 variables from {}".format(os.path.join(trained[0], "model.ckpt-4")) in told
    with open(os.path.join(model_dir, "config.json")) as file:
        assert json.load(file)["init_checkpoint"] == trained[0]
    before, after = (stored(tf.train.latest_checkpoint(folder)) for folder in (trained[0], model_dir))
    assert after["global_step"] == 1
    for name in before:
        if name.endswith(("kernel", "gamma", "beta", "bias")):
            np.testing.assert_allclose(after[name], before[name], rtol=0, atol=1e-12, err_msg=name)
    means = [name for name in before if name.endswith("/moving_mean")]
    assert any(abs(after[name] - before[name]).max() > 1e-6 for name in means)  # a step was taken
    told = succeeded(run(*train("--config.init_checkpoint=" + str(tmp_path / "gone"), "--dry_run", *arguments)))
    assert "resumed    at step 1" in told and "variables from" not in told


@pytest.fixture
def network():
    """A network of four variables in the default graph, with slots, a step counter and a loss scale."""
    tf.train.get_or_create_global_step()
    tf.get_variable("loss_scale/scale", [], trainable=False)
    for name, shape in (("resnet/conv/kernel", [1, 1, 3, 2]), ("resnet/bn/gamma", [2]), ("pspnet/head/kernel", [2, 4])):
        tf.get_variable(name, shape)
        tf.get_variable(name + "/Momentum", shape, trainable=False)
    tf.get_variable("resnet/bn/moving_mean", [2], trainable=False)
    return {v.op.name: v for v in tf.global_variables()}


def values(**changes):
    found = {"resnet/conv/kernel": np.ones([1, 1, 3, 2], np.float32), "resnet/bn/gamma": np.full(2, 3, np.float32),
             "resnet/bn/moving_mean": np.full(2, 4, np.float32), "pspnet/head/kernel": np.full([2, 4], 5, np.float32)}
    found.update({name.replace("__", "/"): value for name, value in changes.items()})
    return {name: value for name, value in found.items() if value is not None}


def start(tmp_path, found, config=None, at=""):
    config = config or cityscapes_pspnet50.get_config()
    prefix = str(tmp_path / "some.ckpt")
    initial_weights.write(prefix, found, config)
    return prefix, initial_weights.start_from(prefix + at, config)


def test_what_the_checkpoint_has_is_taken_and_the_rest_starts_as_ever(network, tmp_path):
    found = values(pspnet__head__kernel=None, pspnet__aux__kernel=np.zeros(3, np.float32))
    _, told = start(tmp_path, found)
    assert "3 of 4 variables" in told and "backbone 3 of 3, head 0 of 1" in told and "not used: pspnet/aux/kernel" in told
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        after = session.run(network)
    for name in ("resnet/conv/kernel", "resnet/bn/gamma", "resnet/bn/moving_mean"):
        np.testing.assert_array_equal(after[name], found[name])
    assert after["global_step"] == 0 and after["pspnet/head/kernel"].std() > 0


@pytest.mark.parametrize("changes, message", [
    ({"resnet__bn__gamma": None}, r"resnet/bn/gamma \[2\] is not in it"),
    ({"resnet__bn__gamma": np.zeros(3, np.float32)}, r"resnet/bn/gamma is \[3\] there, \[2\] here"),
    ({"pspnet__head__kernel": np.zeros([2, 7], np.float32)}, r"pspnet/head/kernel is \[2, 7\] there, \[2, 4\] here"),
    ({"resnet__deeper__kernel": np.zeros(3, np.float32)}, "resnet/deeper/kernel is there and not here"),
])
def test_what_does_not_fit_is_named(network, tmp_path, changes, message):
    with pytest.raises(ValueError, match="some.ckpt does not fit the network: " + message):
        start(tmp_path, values(**changes))


def test_another_input_than_it_was_imported_for_is_refused(network, tmp_path):
    prefix, _ = start(tmp_path, values())
    config = cityscapes_pspnet50.get_config()
    config.input.mean = (127.5, 127.5, 127.5)
    with pytest.raises(ValueError, match=r"was made for config.input.mean=\(123.675,116.28,103.53\) and this run has"):
        initial_weights.start_from(prefix, config)


def test_another_input_than_its_run_had_is_refused(network, tmp_path):
    config = cityscapes_pspnet50.get_config()
    prefix = str(tmp_path / "model.ckpt-9")
    save(prefix, dict(values(), global_step=np.array(9)), "ckpt")
    assert initial_weights.start_from(prefix, config)
    config.input.std = (1.0, 1.0, 1.0)
    configuration.save(config, str(tmp_path))
    best = str(tmp_path / "best" / "model.ckpt-9")
    os.mkdir(os.path.dirname(best))
    save(best, dict(values(), global_step=np.array(9)), "ckpt")
    for path in (prefix, best):
        assert initial_weights.start_from(path, config)
        with pytest.raises(ValueError, match=r"was made for config.input.std=\(1,1,1\) and this run has"):
            initial_weights.start_from(path, cityscapes_pspnet50.get_config())


def test_missing_and_damaged_checkpoints_are_named(network, tmp_path):
    config = cityscapes_pspnet50.get_config()
    with pytest.raises(ValueError, match="no checkpoint to start from at .*nowhere: there is no"):
        initial_weights.start_from(str(tmp_path / "nowhere"), config)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        initial_weights.start_from(str(tmp_path), config)
    prefix, _ = start(tmp_path, values())
    with open(prefix + ".data-00000-of-00001", "r+b") as file:
        file.truncate(20)
    with pytest.raises(ValueError, match="some.ckpt is damaged"):
        initial_weights.start_from(prefix, config)


def test_imported_weights_are_no_run_to_resume(network, tmp_path):
    prefix, _ = start(tmp_path, values())
    with pytest.raises(ValueError, match="imported weights and no run: name it with --config.init_checkpoint"):
        initial_weights.refuse_as_run(prefix)
