"""The benchmark: its arithmetic, its turns, its table, and that contestants compute the same things."""

import argparse
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the benchmark's networks are those of the configurations")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from scripts import benchmark_contests, benchmark_report, benchmark_runs  # noqa: E402
from scripts.contestants import convolution_kernels, live_memory, training_step  # noqa: E402
from tests.scripts.command import ROOT, failed, run, succeeded  # noqa: E402

A = [[4.0, 2.0, 3.0], [6.0, 6.0, 6.0], [1.0, 2.0, 9.0]]  # seconds of A in three turns: medians 3, 6, 2
B = [[2.0, 2.0, 2.0], [1.0, 3.0, 2.0], [4.0, 4.0, 4.0]]  # medians 2, 2, 4


def turns():
    def result(seconds):
        return {"step_seconds": seconds, "step_cpu_seconds": [2 * s for s in seconds], "peak_bytes": 1e6 * len(seconds)}

    return [{"a": result(a), "b": result(b)} for a, b in zip(A, B)]


def step_row(goal, compare="<="):
    return benchmark_contests.over("step of a / b", compare, goal, "a", "b", benchmark_contests.step)


def contest(rows):
    commands = {"a": ["python", "-m", "a"], "b": ["python", "-m", "b"]}
    return benchmark_contests.Contest("both", "About a and b.", commands, rows)


def test_a_ratio_is_the_median_over_turns_of_the_ratio_within_a_turn():
    found = benchmark_report.ratio(step_row(1.0), turns())
    assert found == (1.5, 0.5, 3.0)  # of 3/2, 6/2 and 2/4
    assert benchmark_report.ratio(step_row(1.0), turns(), cpu=True) == (1.5, 0.5, 3.0)
    assert benchmark_report.ratio(step_row(1.0), [{"a": turns()[0]["a"]}]) is None


@pytest.mark.parametrize("compare, goal, text", [
    ("<=", 1.5, "yes, but not in every turn"), ("<=", 1.4, "no, but not in every turn"), ("<=", 3.0, "yes"), ("<=", 0.4, "no"),
    (">=", 0.5, "yes"), (">=", 3.1, "no"), (">=", 1.6, "no, but not in every turn")])
def test_whether_a_goal_is_reached_is_decided_by_the_median(compare, goal, text):
    row = step_row(goal, compare)
    assert benchmark_report.outcome(row, benchmark_report.ratio(row, turns())) == text


def test_the_table_has_a_line_a_row_and_says_why_one_was_not_run():
    memory = benchmark_contests.over("memory of a / b", "<=", 1, "a", "b", benchmark_contests.memory)
    alone = contest([step_row(1.02)])._replace(name="alone")
    other = contest([step_row(1.02)])._replace(name="other")
    results = {"both": {"turns": turns(), "failed": {}, "busy": 0.1, "commands": ["python -m a"]},
               "alone": {"turns": [{"a": turns()[0]["a"]}], "failed": {"b": "no | torch"}, "busy": None, "commands": []}}
    contests = [contest([step_row(1.02), memory]), alone, other]
    assert benchmark_report.table(contests, results).splitlines()[2:] == [
        "| step of a / b | ≤ 1.02 | 1.50 (0.500 to 3.00) | no, but not in every turn | 1.50 (0.500 to 3.00) |",
        "| memory of a / b | ≤ 1 | 1.00 (1.00 to 1.00) | yes | - |",
        "| step of a / b | ≤ 1.02 | not run: no / torch | not measured | - |",
        "| step of a / b | ≤ 1.02 | - | not measured | - |"]
    text = benchmark_report.document(contests, results, "quick", {"cores": 2})
    assert "other processes took 10% of the processors" in text and "an unknown part" in text
    assert "- cores: 2" in text and "\npython -m a\n" in text and "`b` did not run: no | torch" in text
    assert "| a | 4.00 (1.00 to 9.00) | 8.00 (2.00 to 18.0) | 3.00 (3.00 to 3.00) | - |" in text


@pytest.mark.parametrize("value, text", [
    (0.98765, "0.988"), (1.0, "1.00"), (12.345, "12.3"), (123.45, "123"), (5800, "5,800"), (9.999, "10.00")])
def test_numbers_have_three_digits(value, text):
    assert benchmark_report.number(value) == text


def test_contestants_run_in_turn_and_one_that_fails_is_not_run_again():
    order = []

    def fake(command):
        order.append(command)
        if command == "b" and order.count("b") == 2:
            raise benchmark_runs.ContestantError("out of memory")
        return {"step_seconds": [1.0], "peak_bytes": 1e6}

    commands = {"a": "a", "b": "b", "c": "c"}
    ran, why = benchmark_runs.in_turn(commands, 3, fake)
    assert order == ["a", "b", "c", "a", "b", "c", "a", "c"] and why == {"b": "out of memory"}
    assert [sorted(turn) for turn in ran] == [["a", "c"]] * 3


@pytest.mark.parametrize("code, why", [
    ("import sys; sys.exit('no torch here')", "exit code 1: no torch here"), ("print('done')", "no line of JSON")])
def test_a_contestant_without_a_result_says_why(code, why):
    with pytest.raises(benchmark_runs.ContestantError, match=why):
        benchmark_runs.run([sys.executable, "-c", code])


def test_every_contest_names_contestants_that_it_has():
    for suite in benchmark_contests.SUITES:
        contests = benchmark_contests.contests(suite, None, "python", "torch")
        assert len({contest.name for contest in contests}) == len(contests)
        for one in contests:
            assert one.rows and all(name in one.commands for row in one.rows for name in row.contestants)
            for command in one.commands.values():
                assert os.path.exists(os.path.join(ROOT, *command[2].split(".")) + ".py")


def measured(**flags):
    defaults = dict(network="thin_pspnet", norm="sync", towers=2, batch=4, crop=33, steps=1, warmup=0, recompute=False,
                    profile=False, live=False)
    return training_step.measure(argparse.Namespace(**dict(defaults, **flags)))


@pytest.mark.long
def test_hand_split_and_synchronised_steps_start_from_one_loss_and_take_the_same_step():
    sync, hand_split = (measured(norm=norm) for norm in ("sync", "hand_split"))
    assert sync["first_loss"] == pytest.approx(hand_split["first_loss"], rel=1e-4)
    assert sync["step_flops"] == hand_split["step_flops"] > 0
    gradients = {}
    for norm in ("sync", "hand_split"):
        with tf.Graph().as_default(), tf.Session() as session:
            step, feed = training_step.build("small_resnet", norm, ["/cpu:0", "/cpu:0"], 4, 33)
            session.run(tf.global_variables_initializer())
            names = [variable.op.name for _, variable in step.grads_and_vars]
            gradients[norm] = dict(zip(names, session.run([gradient for gradient, _ in step.grads_and_vars], feed)))
            session.run(step.train_op, feed)
            moving = {v.op.name: v for v in tf.global_variables() if "/moving_" in v.op.name}
            gradients[norm].update(session.run(moving))
    assert gradients["sync"].keys() == gradients["hand_split"].keys()
    for name, value in gradients["sync"].items():
        difference = np.abs(value - gradients["hand_split"][name]).max()
        assert difference <= 2e-2 * np.abs(value).max() + 1e-6, name  # float32, and kinks of ReLUs


@pytest.mark.long
def test_a_step_with_recomputation_starts_from_the_same_loss():
    kept, recomputed = (measured(network="small_resnet", recompute=recompute, live=True) for recompute in (False, True))
    assert kept["first_loss"] == recomputed["first_loss"] and recomputed["ops"] > kept["ops"]
    assert min(kept["live_bytes"], recomputed["live_bytes"]) > 1e6  # which is less is chance: small network


def test_the_other_ways_to_a_convolution_give_its_gradients():
    """Shapes and values: each way is asked for what TensorFlow's own kernel gives."""
    found = convolution_kernels.convolutions("small_resnet", 33)
    assert found and all(len(image) == len(kernel) == 4 for image, kernel, _ in found)
    for shapes in (((2, 9, 9, 4), (3, 3, 4, 5), "SAME"), ((2, 9, 9, 4), (3, 3, 4, 5), "VALID"),
                   ((1, 5, 5, 3), (1, 1, 3, 2), "SAME")):
        with tf.Graph().as_default(), tf.Session() as session:
            ways = convolution_kernels.ways(*shapes)
            session.run(tf.global_variables_initializer())
            values = session.run(ways)
        np.testing.assert_allclose(values["as a convolution"], values["input gradient"], rtol=1e-4, atol=1e-4)
        if "as a product" in values:
            np.testing.assert_allclose(
                values["as a product"], values["kernel gradient"].reshape(shapes[1][2:]), rtol=1e-4, atol=1e-4)
        assert all(t > 0 for t in convolution_kernels.milliseconds(*shapes, steps=1).values())


def test_tensors_at_once_are_those_that_somebody_still_needs():
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.random_uniform([1000, 1000])
        b = tf.matmul(a, a)
        c = tf.matmul(b, a)  # beside a and b; then, a is let go
        d = tf.matmul(c, b)
        found = live_memory.peak(session, tf.reduce_sum(d), None)
    assert 3 * 4e6 <= found < 3.1 * 4e6


def test_what_is_freed_goes_before_what_is_taken_at_the_same_time():
    assert live_memory.largest_sum([(1, 5), (3, 4), (2, 3), (3, -5), (4, -3), (5, -4)]) == 8
    assert live_memory.largest_sum([]) == 0


@pytest.mark.long
def test_a_traced_step_tells_what_each_kind_of_op_took():
    seconds = measured(network="small_resnet", profile=True)["op_seconds"]
    assert {"Conv2DBackpropFilter", "Conv2DBackpropInput"} <= set(seconds)
    assert list(seconds.values()) == sorted(seconds.values(), reverse=True)


KERAS = """
import re, sys
import numpy as np
from scripts.contestants import keras_step
model = keras_step.resnet("small_resnet", 33)
values = [value for _, value in sorted(np.load(sys.argv[1]).items())]
kinds = {kind: [layer for layer in model.layers if type(layer).__name__ == kind]
         for kind in ("Conv2D", "BatchNormalization", "Dense")}
for layers in kinds.values():  # as they were made: Keras lists them by their depth
    layers.sort(key=lambda layer: int((re.findall("_([0-9]+)$", layer.name) or [0])[0]))
pairs = zip(kinds["Conv2D"], kinds["BatchNormalization"], strict=True)
variables = [v for pair in pairs for layer in pair for v in layer.trainable_variables]
variables += kinds["Dense"][0].trainable_variables
assert len(variables) == len(model.trainable_variables)
for variable, value in zip(variables, values, strict=True):
    variable.assign(value)
image, label = keras_step.training_step.data("small_resnet", 4, 33)
logits = model(image, training=True)
print(float(np.mean(keras_step.tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))))
"""


@pytest.mark.long
def test_the_keras_network_is_ours(tmp_path):
    """Its variables are as many and have the shapes of ours, layer by layer, and with our values it has our loss."""
    pytest.importorskip("tf_keras", reason="the Keras contestant needs tf_keras")
    with tf.Graph().as_default(), tf.Session() as session:
        step, feed = training_step.build("small_resnet", "sync", ["/cpu:0"], 4, 33)
        session.run(tf.global_variables_initializer())
        values = session.run(tf.trainable_variables())
        loss = session.run(step.loss, feed)
    path = str(tmp_path / "values.npz")
    np.savez(path, **{"{:04}".format(k): value for k, value in enumerate(values)})
    environment = dict(os.environ, PYTHONPATH=ROOT, TF_CPP_MIN_LOG_LEVEL="2")
    done = subprocess.run([sys.executable, "-c", KERAS, path], env=environment, timeout=300, universal_newlines=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) == pytest.approx(loss, rel=1e-4)


def test_the_network_in_pytorch_is_ours(monkeypatch):
    """With its weights, read as semseg's are, ours has its loss; one unit a stage, as units differ in nothing but shapes."""
    torch = pytest.importorskip("torch", reason="the PyTorch contestant needs torch")
    from models import losses, pretrained, pspnet, resnet
    from scripts.contestants import networks, torch_step

    units = (1, 1, 1, 1)
    monkeypatch.setitem(resnet.UNITS, "resnet50", units)
    torch.manual_seed(0)
    model = torch_step.PSPNet(units, dropout=0.0).train()
    image, label = training_step.data("pspnet50", 2, 33)
    with torch.no_grad():
        arrays = {"module." + name: value.numpy().copy() for name, value in model.state_dict().items()}
        expected = model.loss(torch.from_numpy(image.transpose(0, 3, 1, 2).copy()), torch.from_numpy(label.astype(np.int64)))
    config = networks.configuration("pspnet50")
    config.model.update(dropout=0.0, norm="plain")

    def model_fn(image, label):
        outputs = pspnet.pspnet(image, config.model, config.num_classes)
        return losses.pspnet_loss(outputs, label, config.loss, config.ignore_label)["loss"]

    with tf.Graph().as_default(), tf.Session() as session:
        (loss,) = towers.build(model_fn, [(tf.constant(image), tf.constant(label))], ["/cpu:0"], training=True)
        variables = tf.global_variables()
        shapes = {v.op.name: tuple(v.shape.as_list()) for v in variables}
        values, _ = pretrained.convert(arrays, "semseg", shapes, config.input.mean, config.input.std)
        assert set(values) == set(shapes)  # so there are as many parameters, too
        for variable in variables:
            variable.load(values[variable.op.name], session)
        assert session.run(loss) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("number", [0, 3, 5, 6])
def test_the_pipeline_in_opencv_gives_our_crops(number, tmp_path):
    pytest.importorskip("cv2", reason="the OpenCV contestant needs OpenCV")
    from inputs import augmentation
    from scripts.contestants import input_pipeline, opencv_augmentation, photographs

    (paths,) = photographs.draw(str(tmp_path), 1, (96, 128))
    drawn = {"scale": (0.5, 1.0, 1.3, 2.0)[number % 4], "rotate": number % 2 == 1, "degrees": 7.0 - 3 * number,
             "blur": number in (2, 3, 6, 7), "flip": number > 3, "crop_y": 0.3, "crop_x": 0.7}
    params = input_pipeline.parameters(73)
    image, label = opencv_augmentation.read_and_augment(*paths, drawn, params)
    with tf.Graph().as_default(), tf.Session() as session:
        from inputs import decoding

        ours = augmentation.apply_parameters(*decoding.read_example(*map(tf.constant, paths)),
                                  {name: tf.constant(value) for name, value in drawn.items()}, params)
        our_image, our_label = session.run(ours)
    grey = np.abs(our_image - image) * np.float32(params.std)  # OpenCV rounds to whole grey values after each step
    assert np.percentile(grey, 99) < 2.5 and np.mean(our_label == label) > 0.995


@pytest.mark.long
def test_both_pipelines_draw_the_same_and_come_out_alike(tmp_path):
    pytest.importorskip("cv2", reason="the OpenCV contestant needs OpenCV")
    from scripts.contestants import input_pipeline

    args = argparse.Namespace(data_dir=str(tmp_path), height=64, width=96, crop=41, workers=2, images=8, steps=1, warmup=0)
    found = input_pipeline.files(args)
    with tf.Graph().as_default(), tf.Session() as session:
        crops = [way(args, found, session) for way in (input_pipeline.ours, input_pipeline.opencv)]
        for _ in range(8):
            (our_image, our_label), (image, label) = map(next, crops)
            assert np.mean(np.abs(our_image - image)) < 0.05 and np.mean(our_label == label) > 0.95  # ties on edges
        for one in crops:
            one.close()


@pytest.mark.long
def test_both_ways_over_windows_give_the_same_probabilities():
    from scripts.contestants import sliding_windows

    sums = [sliding_windows.measure(argparse.Namespace(
        way=way, network="thin_pspnet", towers=2, crop=33, height=40, width=70, steps=1, warmup=0))["checksum"]
        for way in ("ours", "naive")]
    assert sums[0] == pytest.approx(sums[1], rel=1e-6) and sums[0] > 0


@pytest.mark.long
def test_building_tells_ops_and_seconds_a_tower():
    from scripts.contestants import graph_building

    one, three = (graph_building.measure(argparse.Namespace(network="small_resnet", norm="sync", towers=n, crop=33))
                  for n in (1, 3))
    assert three["tower_ops"] * 3 == three["ops"] > one["ops"] and one["backward_ops"] > 0
    assert three["tower_seconds"] == pytest.approx(three["step_seconds"][0] / 3)


@pytest.mark.long
def test_the_command_measures_writes_and_goes_on(tmp_path):
    files = ["--output={}".format(tmp_path / "B.md"), "--results={}".format(tmp_path / "B.json")]
    output = succeeded(run("benchmark", "--only=hand_split", "--rounds=1", "--steps=1", *files))
    assert "turn 1 of 1: hand_split" in output and "| step of the hand-split way / ours;" in output
    with open(str(tmp_path / "B.json")) as file:
        content = json.load(file)
    (turn,) = content["contests"]["hand_split"]["turns"]
    losses = [turn[name]["first_loss"] for name in ("hand_split", "sync")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    text = (tmp_path / "B.md").read_text()
    assert "--norm=hand_split --towers=2" in text and "not measured" in text and sys.executable not in text
    assert "the contests are" in failed(run("benchmark", "--only=nothing", *files))
