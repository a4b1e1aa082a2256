"""The recipes hold the published figures, and every one has the same settings of the same types."""

import ast
import glob
import importlib.util
import math
import os

import pytest

ml_collections = pytest.importorskip("ml_collections", reason="the configurations need ml_collections")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPES = sorted(glob.glob(os.path.join(ROOT, "configs", "[!_]*.py")))

# The table of the authors' PyTorch code, written out once more, by hand, from its configuration files
# (cityscapes_pspnet50.yaml) and its train.py, transform.py, pspnet.py and resnet.py.
SEMSEG = {
    "batch_size": 16, "dataset": "cityscapes", "num_classes": 19, "ignore_label": 255,
    "train_split": "train", "eval_split": "val",
    "input.crop_size": (713, 713), "input.resize": 1.0, "input.scale_range": (0.5, 2.0),
    "input.rotate_degrees": 10.0, "input.rotate_probability": 0.5, "input.blur_probability": 0.5,
    "input.flip_probability": 0.5, "input.shuffle": True,
    "input.mean": (0.485 * 255, 0.456 * 255, 0.406 * 255),
    "input.std": (0.229 * 255, 0.224 * 255, 0.225 * 255),
    "model.backbone": "resnet50", "model.stem": "deep", "model.pyramid": "adaptive",
    "model.pyramid_bins": (1, 2, 3, 6), "model.pyramid_channels": 512, "model.head_channels": 512,
    "model.aux_channels": 256, "model.align_corners": True, "model.dropout": 0.1, "model.norm": "sync",
    "model.norm_momentum": 0.9, "model.norm_epsilon": 1e-5,
    "loss.mean": "tower", "loss.aux_weight": 0.4, "loss.class_weights": None,
    "loss.hard_pixel_fraction": None,
    "optimizer.name": "momentum", "optimizer.momentum": 0.9, "optimizer.learning_rate": 0.01,
    "optimizer.power": 0.9, "optimizer.end_learning_rate": 0.0, "optimizer.weight_decay": 1e-4,
    "optimizer.decay_on": "all", "optimizer.head_lr_multiplier": 10.0,
    "eval.crop_size": (713, 713), "eval.stride_rate": 2 / 3, "eval.scales": (1.0,), "eval.flip": True,
    "eval.max_images": None, "eval.long_side": None,
}


def recipe(path):
    spec = importlib.util.spec_from_file_location("recipe", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config()


def flat(config, prefix=""):
    values = {}
    for name, value in config.items():
        if hasattr(value, "items"):
            values.update(flat(value, prefix + name + "."))
        else:
            values[prefix + name] = value
    return values


@pytest.mark.parametrize("name, backbone", [("cityscapes_pspnet50", "resnet50"),
                                            ("cityscapes_pspnet101", "resnet101")])
def test_cityscapes_recipes_hold_every_published_value(name, backbone):
    values = flat(recipe(os.path.join(ROOT, "configs", name + ".py")))
    for setting, published in dict(SEMSEG, **{"model.backbone": backbone}).items():
        wanted = pytest.approx(published) if isinstance(published, (float, tuple)) else published
        assert values[setting] == wanted, setting
    # 200 epochs of 2,975 images, the last batch of an epoch included; stride 476; 713 is 8n+1.
    assert values["max_steps"] == 200 * math.ceil(2975 / values["batch_size"]) == 37_200
    assert math.ceil(values["eval.crop_size"][0] * values["eval.stride_rate"]) == 476
    assert (values["input.crop_size"][0] - 1) % 8 == 0


def test_no_recipe_value_is_left_unchecked_by_the_published_table():
    values = flat(recipe(os.path.join(ROOT, "configs", "cityscapes_pspnet50.py")))
    ours = {"seed", "max_steps", "init_checkpoint", "input.num_parallel", "input.cache", "model.width",
            "model.norm_statistics", "eval.every_steps", "eval.num_pictures"}
    own = {name for name in values if name.split(".")[0] in ("synthetic", "checkpoint", "log")} | ours
    assert set(values) == set(SEMSEG) | own


@pytest.mark.parametrize("path", RECIPES, ids=os.path.basename)
def test_every_recipe_has_the_same_settings_and_is_accepted(path):
    from scripts import configuration

    config = recipe(path)
    full = flat(recipe(os.path.join(ROOT, "configs", "cityscapes_pspnet50.py")))
    values = flat(config)
    assert set(values) == set(full)
    for name, value in values.items():
        if value is not None and full[name] is not None:
            assert type(value) is type(full[name]), name
    assert configuration.check(config) is config


@pytest.mark.parametrize("path", RECIPES, ids=os.path.basename)
def test_a_recipe_opens_with_its_command_cost_and_goal_and_needs_no_tensorflow(path):
    with open(path) as file:
        tree = ast.parse(file.read())
    text = " ".join(ast.get_docstring(tree).split())
    for part in ("python scripts/train.py", "Cost: ", "To reach: "):
        assert part in text
    assert "TODO" not in text
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"ml_collections", "configs"}
