"""train.py --dry_run: the resolved recipe, and not a byte written."""

import os

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.scripts.command import ROOT, run_all, succeeded, train  # noqa: E402


def listing(folder):
    return {os.path.join(place, name): os.path.getmtime(os.path.join(place, name))
            for place, folders, files in os.walk(folder) for name in folders + files if "__pycache__" not in name}


@pytest.fixture(scope="module")
def dry(streets, tmp_path_factory):
    """Dry runs on drawn scenes that are not there, and on photographs: {name: (output, written files)}."""
    top = tmp_path_factory.mktemp("dry")
    folders = {name: top / name for name in ("scenes", "photographs")}
    for folder in folders.values():
        folder.mkdir()
    network = ["--config.model.width=4", "--num_gpus=2", "--device_type=cpu", "--dry_run"]
    data = os.path.join(ROOT, "data")
    before = listing(str(top)), listing(data)
    results = run_all({
        "scenes": ["train", "--data_dir={}".format(folders["scenes"] / "drawn"),
                   "--model_dir={}".format(folders["scenes"] / "run")] + network,
        "photographs": train("--data_dir=" + streets, "--model_dir={}".format(folders["photographs"] / "run"),
                             "--num_gpus=3", "--dry_run", "--config.model.norm=plain", "--max_steps=8",
                             "--config.optimizer.decay_on=kernels", "--config.eval.flip=True",
                             "--config.input.resize=0.75")})
    assert (listing(str(top)), listing(data)) == before
    return {name: succeeded(result) for name, result in results.items()}


def test_scenes_are_planned_and_not_drawn(dry):
    assert "drew" not in dry["scenes"]
    for line in ("data       256 images to train on, 48 to evaluate",
                 "batch      8 in total, 4 a tower",
                 "schedule   700 steps of 8 images, 21.88 epochs of 32.00 steps, power 0.9",
                 "lr         head x1: 0.1 at step 1, 0.05359 at step 351, {:.4g} at step 700".format(0.1 / 700 ** 0.9),
                 "decay      backbone: 0.0001 on 36 of 36 variables (12 of 12 beta, 12 of 12 gamma, 12 of 12 kernel)",
                 "evaluation   128x256 at scale 1: 1x1 windows",
                 "evaluation   forward passes: 1 for such an image, 48 for all",
                 "dry run: no step taken"):
        assert line in dry["scenes"].splitlines(), line


def test_the_recipe_is_resolved_for_the_data_and_the_towers_at_hand(dry):
    # Images of 48x64 read at 36x48, windows of 49x65 (padded), a batch of 4 over 3 towers.
    for line in ("batch      4 in total, 2, 1, 1 a tower",
                 "sync BN    0 layers (18 plain), 36 update ops",
                 "schedule   8 steps of 4 images, 5.33 epochs of 1.50 steps, power 0.9",
                 "lr         backbone x1: 0.01 at step 1, 0.005359 at step 5, {:.4g} at step 8".format(0.01 / 8 ** 0.9),
                 "lr         head x10: 0.1 at step 1, 0.05359 at step 5, {:.4g} at step 8".format(0.1 / 8 ** 0.9),
                 "decay      head: 0.0001 on 8 of 22 variables (0 of 6 beta, 0 of 2 bias, 0 of 6 gamma, 8 of 8 kernel)",
                 "weights    random initial values, seed 0",
                 "evaluation crop 49x65, stride 33x44, flip on; 3 of 3 images are 48x64, which are seen as",
                 "evaluation   36x48 at scale 1: 1x1 windows",
                 "evaluation   forward passes: 2 for such an image, 6 for all"):
        assert line in dry["photographs"].splitlines(), line
