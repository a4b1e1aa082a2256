"""A checkpoint that was cut, overwritten or lost, the only one there, ends every script in one line, and nothing is
written."""

import glob
import os
import shutil

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.scripts.command import failed, run_all, train  # noqa: E402


def test_cut_overwritten_and_lost_checkpoints(streets, trained, tmp_path):
    cases = {}
    for damage in ("cut", "overwritten", "lost"):
        model_dir = str(tmp_path / damage)
        shutil.copytree(trained[0], model_dir)
        for path in glob.glob(os.path.join(model_dir, "model.ckpt-0.*")):
            os.remove(path)  # or train.py would go on from it
        latest = os.path.join(model_dir, "model.ckpt-4")
        data, = glob.glob(latest + ".data-*")
        if damage == "lost":
            for path in glob.glob(latest + ".*"):
                os.remove(path)
        else:
            size = os.path.getsize(data)
            with open(data, "r+b") as file:
                file.truncate(size // 2)
                if damage == "overwritten":
                    file.write(b"junk" * (size // 8 + 1))
        cases[damage, "train"] = (model_dir, latest, train(
            "--num_gpus=2", "--data_dir=" + streets, "--model_dir=" + model_dir, "--max_steps=6"))
        cases[damage, "evaluate"] = (model_dir, latest, [
            "evaluate", "--model_dir=" + model_dir, "--data_dir=" + streets])
    before = {case: sorted(os.listdir(cases[case][0])) for case in cases}
    for case, result in run_all({case: arguments for case, (_, _, arguments) in cases.items()}).items():
        assert cases[case][1] in failed(result), case
        assert sorted(os.listdir(cases[case][0])) == before[case], case
