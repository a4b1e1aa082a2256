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
SEGMENTATION = [path for path in RECIPES if not os.path.basename(path).startswith("cifar10")]

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


# The TensorFlow reproduction by holyseven, from its README, args.py, run.py, database/ and model/: what differs.
HOLYSEVEN = dict(SEMSEG, **{
    "batch_size": 8, "max_steps": 50_000,
    "input.crop_size": (864, 864), "input.rotate_probability": 0.0, "input.blur_probability": 0.0,
    "input.mean": (72.41519599, 82.93553322, 73.18188461), "input.std": (1.0, 1.0, 1.0),
    "model.backbone": "resnet101", "model.stem": "7x7", "model.pyramid": "average", "model.align_corners": False,
    "loss.mean": "global", "optimizer.decay_on": "kernels", "optimizer.head_lr_multiplier": 1.0,
    "eval.crop_size": (864, 864),
})

# semseg's ade20k_pspnet50.yaml: what differs from its configuration for Cityscapes.
SEMSEG_ADE20K = dict(SEMSEG, **{
    "dataset": "ade20k", "num_classes": 150, "train_split": "training", "eval_split": "validation",
    "input.crop_size": (473, 473), "eval.crop_size": (473, 473), "eval.long_side": 512,
})

PUBLISHED = {
    "cityscapes_pspnet50": dict(SEMSEG, max_steps=37_200),
    "cityscapes_pspnet101": dict(SEMSEG, max_steps=37_200, **{"model.backbone": "resnet101"}),
    "cityscapes_pspnet101_864": HOLYSEVEN,
    "ade20k_pspnet50": dict(SEMSEG_ADE20K, max_steps=126_300),
}

# The figures that a recipe's head must name: mIoU, mean and pixel accuracy at one scale, then at six.
FIGURES = {
    "cityscapes_pspnet50": (".7730", ".8431", ".9597", ".7838", ".8486", ".9617"),
    "cityscapes_pspnet101": (".7863", ".8577", ".9614", ".7929", ".8591", ".9638"),
    "cityscapes_pspnet101_864": (".779", ".786"),
    "ade20k_pspnet50": (".4189", ".5227", ".8039", ".4284", ".5266", ".8106"),
}

# What no publication says, and what is off unless asked for.
OURS = {"seed", "init_checkpoint", "accumulate_steps", "precision", "recompute", "input.num_parallel", "input.cache",
        "model.width", "model.norm_statistics", "model.norm_group_size", "eval.every_steps", "eval.num_pictures"}


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


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_recipe_holds_every_published_value(name):
    path = os.path.join(ROOT, "configs", name + ".py")
    values = flat(recipe(path))
    for setting, published in PUBLISHED[name].items():
        wanted = pytest.approx(published) if isinstance(published, (float, tuple)) else published
        assert values[setting] == wanted, setting
    own = {setting for setting in values if setting.split(".")[0] in ("synthetic", "checkpoint", "log")} | OURS
    assert set(values) == set(PUBLISHED[name]) | own, "a setting is in neither list"
    with open(path) as file:
        head = ast.get_docstring(ast.parse(file.read()))
    for figure in FIGURES[name]:
        assert figure in head


def test_the_steps_follow_from_epochs_images_and_batch():
    values = {name: flat(recipe(os.path.join(ROOT, "configs", name + ".py"))) for name in PUBLISHED}
    # Each of semseg's 8 processes sees ceil(n / 8) images an epoch, 2 at a time, and drops what does not fill a batch.
    for name, epochs, images in (("cityscapes_pspnet50", 200, 2975), ("cityscapes_pspnet101", 200, 2975),
                                 ("ade20k_pspnet50", 100, 20_210)):
        assert values[name]["batch_size"] == 8 * 2
        assert values[name]["max_steps"] == epochs * (math.ceil(images / 8) // 2)
    assert values["cityscapes_pspnet50"]["max_steps"] == 200 * 186 == 37_200


def test_the_networks_take_the_crops():
    from models import pspnet

    strides = {"cityscapes_pspnet50": 476, "cityscapes_pspnet101": 476, "cityscapes_pspnet101_864": 576,
               "ade20k_pspnet50": 316}
    for name in PUBLISHED:
        values = flat(recipe(os.path.join(ROOT, "configs", name + ".py")))
        for size in (values["input.crop_size"], values["eval.crop_size"]):
            assert (size[0] - values["model.align_corners"]) % 8 == 0
            pspnet.check_input_size(*size, values["model.align_corners"], values["model.pyramid"],
                                    values["model.pyramid_bins"])
        assert math.ceil(values["eval.crop_size"][0] * values["eval.stride_rate"]) == strides[name]


@pytest.mark.parametrize("path", SEGMENTATION, ids=os.path.basename)
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
    script = "train.py" if path in SEGMENTATION else "train_classifier.py"
    for part in ("python scripts/" + script, "Cost: ", "To reach: "):
        assert part in text
    assert "TODO" not in text
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"ml_collections", "configs"}


def test_the_cifar10_recipe_is_that_of_the_paper_at_half_its_batch():
    # He et al. (2016), section 4.2: 64,000 steps of 128, lr 0.1, divided by 10 at 32,000 and 48,000, momentum 0.9, 4
    # pixels of padding, mirrored; and the weight decay 5e-4 that is usual today, where they have 1e-4.
    from scripts import classifier_configuration

    config = recipe(os.path.join(ROOT, "configs", "cifar10_resnet.py"))
    assert classifier_configuration.check(config) is config
    values = flat(config)
    wanted = {"batch_size": 128 // 2, "max_steps": 64_000 * 2, "optimizer.boundaries": (32_000 * 2, 48_000 * 2),
              "optimizer.learning_rate": 0.1, "optimizer.factor": 0.1, "optimizer.momentum": 0.9,
              "optimizer.weight_decay": 5e-4, "optimizer.decay_on": "all", "input.pad": 4, "input.flip_probability": 0.5,
              "model.units": (20 - 2) // 6, "model.width": 16, "num_classes": 10, "model.norm": "sync"}
    assert {name: values[name] for name in wanted} == wanted
