"""train.py --dry_run: the resolved recipe, and not a byte written."""

import os

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.scripts.command import ROOT, run, succeeded  # noqa: E402


def listing(folder):
    return {os.path.join(place, name): os.path.getmtime(os.path.join(place, name))
            for place, folders, files in os.walk(folder) for name in folders + files}


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """The lines of a dry run on scenes that are not drawn yet, of everything that the report resolves."""
    top = tmp_path_factory.mktemp("dry")
    before = listing(str(top)), listing(os.path.join(ROOT, "data")), listing(os.path.join(ROOT, "runs"))
    output = succeeded(run(
        "train", "--data_dir={}".format(top / "scenes"), "--model_dir={}".format(top / "run"), "--dry_run",
        "--num_gpus=3", "--device_type=cpu", "--max_steps=500", "--config.model.width=4", "--config.model.norm=plain",
        "--config.optimizer.decay_on=kernels", "--config.optimizer.head_lr_multiplier=10",
        "--config.input.resize=0.75", "--config.eval.scales=(1.0,2.0)", "--config.eval.flip=True"))
    assert (listing(str(top)), listing(os.path.join(ROOT, "data")), listing(os.path.join(ROOT, "runs"))) == before
    return output.splitlines()


def test_scenes_are_planned_and_not_drawn(dry):
    assert not any("drew" in line for line in dry) and "dry run: no step taken" in dry
    assert "data       256 images to train on, 48 to evaluate" in dry


def test_the_recipe_is_resolved_for_the_data_and_the_towers_at_hand(dry):
    # Scenes of 128x256 read at 96x192, then at twice that; windows of 129x257, strides of 86x172; 8 images for 3 towers.
    for line in ("batch      8 in total, 3, 3, 2 a tower",
                 "sync BN    0 layers (18 plain), 36 update ops",
                 "schedule   700 steps of 8 images, 21.88 epochs of 32.00 steps, power 0.9",
                 "lr         backbone x1: 0.1 at step 1, 0.05359 at step 351, {:.4g} at step 700".format(0.1 / 700 ** 0.9),
                 "lr         head x10: 1 at step 1, 0.5359 at step 351, {:.4g} at step 700".format(1 / 700 ** 0.9),
                 "decay      backbone: 0.0001 on 12 of 36 variables (0 of 12 beta, 0 of 12 gamma, 12 of 12 kernel)",
                 "decay      head: 0.0001 on 8 of 22 variables (0 of 6 beta, 0 of 2 bias, 0 of 6 gamma, 8 of 8 kernel)",
                 "evaluation crop 129x257, stride 86x172, flip on; 48 of 48 images are 128x256, which are seen as",
                 "evaluation   96x192 at scale 1: 1x1 windows",
                 "evaluation   192x384 at scale 2: 2x2 windows",
                 "evaluation   forward passes: 10 for such an image, 480 for all",
                 "stops      at step 500 of the 700",
                 "weights    random initial values, seed 0"):
        assert line in dry, line
