"""A configuration is checked, kept beside its checkpoints, and compared when a run is resumed."""

import json

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from configs import ade20k_pspnet50, camvid_pspnet, cityscapes_pspnet50, synthetic_pspnet  # noqa: E402
from scripts import configuration  # noqa: E402
from scripts.commandline import UsageError  # noqa: E402


def with_value(name, value):
    config = synthetic_pspnet.get_config()
    *parents, last = name.split(".")
    part = config
    for parent in parents:
        part = part[parent]
    with part.ignore_type():
        part[last] = value
    return config


@pytest.mark.parametrize(
    "name, value",
    [
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("batch_size", True),
        ("max_steps", -1),
        ("seed", -1),
        ("dataset", "coco"),
        ("num_classes", 21),
        ("ignore_label", 0),
        ("input.crop_size", (97,)),
        ("input.crop_size", (97, 97.5)),
        ("input.crop_size", ("a", 97)),
        ("input.scale_range", (2.0, 0.5)),
        ("input.scale_range", (0.0, 1.0)),
        ("input.resize", 0.0),
        ("input.flip_probability", 1.5),
        ("input.mean", (1, 2)),
        ("input.std", (1.0, 0.0, 1.0)),
        ("model.backbone", "vgg"),
        ("model.pyramid_bins", ()),
        ("model.dropout", 1.0),
        ("model.norm", "group"),
        ("model.norm_group_size", 0),
        ("model.norm_group_size", "2"),
        ("loss.mean", "sum"),
        ("loss.hard_pixel_fraction", 0.0),
        ("loss.class_weights", (1.0, 2.0)),
        ("optimizer.learning_rate", float("nan")),
        ("optimizer.name", "adam"),
        ("optimizer.decay_on", "some"),
        ("eval.stride_rate", 1.5),
        ("eval.scales", ()),
        ("eval.max_images", 0),
        ("eval.long_side", 512.5),
        ("checkpoint.keep", 0),
    ],
)
def test_a_value_that_no_run_can_have_is_refused_by_name_in_one_line(name, value):
    with pytest.raises(UsageError) as error:
        configuration.check(with_value(name, value))
    assert name in str(error.value) and "\n" not in str(error.value)


def test_a_missing_and_an_unknown_setting_are_named():
    config = synthetic_pspnet.get_config()
    del config.model.stem
    with pytest.raises(UsageError, match="config.model.stem is missing"):
        configuration.check(config)
    config = synthetic_pspnet.get_config()
    config.model.stems = "deep"
    with pytest.raises(UsageError, match="config.model.stems is no setting"):
        configuration.check(config)


@pytest.mark.parametrize("recipe", [synthetic_pspnet, camvid_pspnet, cityscapes_pspnet50])
def test_a_saved_configuration_comes_back_equal_and_editable(recipe, tmp_path):
    config = recipe.get_config()
    config.loss.hard_pixel_fraction = 0.25
    configuration.save(config, str(tmp_path))
    again = configuration.read(str(tmp_path))
    assert again.to_dict() == config.to_dict()
    assert isinstance(again.input.crop_size, tuple)
    assert configuration.differences(config, again) == []
    again.eval.max_images = 3
    assert json.loads((tmp_path / "config.json").read_text())["batch_size"] == config.batch_size


def test_logging_evaluation_and_saving_may_change_and_all_else_is_listed():
    saved, config = synthetic_pspnet.get_config(), synthetic_pspnet.get_config()
    config.log.every_steps = 77
    config.log.summary_every_steps = 77
    config.eval.flip = not config.eval.flip
    config.eval_split = "test"
    config.checkpoint.keep = 9
    config.input.num_parallel = 1
    assert configuration.differences(config, saved) == []
    config.batch_size = saved.batch_size + 1
    config.model.width = saved.model.width + 1
    assert configuration.differences(config, saved) == [
        "batch_size: {} -> {}".format(saved.batch_size, config.batch_size),
        "model.width: {} -> {}".format(saved.model.width, config.model.width),
    ]


def test_a_run_older_than_a_setting_has_the_value_that_changes_nothing(tmp_path):
    config = synthetic_pspnet.get_config()
    configuration.save(config, str(tmp_path))
    values = json.loads((tmp_path / "config.json").read_text())
    del values["eval"]["long_side"], values["init_checkpoint"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert configuration.read(str(tmp_path)).to_dict() == config.to_dict()


def test_the_number_of_classes_is_that_of_the_data_set():
    config = ade20k_pspnet50.get_config()
    assert configuration.check(config) is config
    config.num_classes = 19
    with pytest.raises(UsageError, match="config.num_classes is 19: it must be 150"):
        configuration.check(config)


def test_a_broken_config_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json is no JSON of settings"):
        configuration.read(str(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="config.json is no JSON of settings"):
        configuration.read(str(tmp_path))
    assert configuration.read(str(tmp_path / "elsewhere")) is None


def test_a_file_that_returns_no_settings_is_told_what_to_return():
    with pytest.raises(UsageError, match="returns 3: it must return a ConfigDict"):
        configuration.check(3)


def test_groups_of_towers_are_refused_where_each_has_its_own_statistics():
    config = with_value("model.norm_group_size", 2)
    assert configuration.check(config) is config
    config.model.norm = "plain"
    with pytest.raises(UsageError, match="norm_group_size is 2 with config.model.norm='plain'"):
        configuration.check(config)
