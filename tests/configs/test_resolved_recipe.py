"""What a run says of its recipe before the first step, against figures worked out by hand from the published tables."""

import pytest

pytest.importorskip("ml_collections", reason="the configurations need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import (  # noqa: E402
    _thin_network,
    ade20k_pspnet50,
    cityscapes_pspnet50,
    cityscapes_pspnet101_864,
)
from scripts import network, resolved_recipe, schedule  # noqa: E402

SIX_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
CITYSCAPES = [(1024, 2048)] * 500


def test_the_published_schedule_in_iterations_and_epochs():
    config = cityscapes_pspnet50.get_config()
    assert resolved_recipe.iterations(config, 2975) == (
        "37,200 steps of 16 images, 200.07 epochs of 185.94 steps, power 0.9")


def test_each_group_s_learning_rate_at_the_first_middle_and_last_step():
    config = cityscapes_pspnet50.get_config()
    middle, last = 0.01 * 0.5 ** 0.9, 0.01 * (1 / 37_200) ** 0.9
    assert list(resolved_recipe.learning_rates(config)) == [
        "backbone x1: 0.01 at step 1, {:.4g} at step 18,601, {:.4g} at step 37,200".format(middle, last),
        "head x10: 0.1 at step 1, {:.4g} at step 18,601, {:.4g} at step 37,200".format(10 * middle, 10 * last)]
    head = list(resolved_recipe.learning_rates(cityscapes_pspnet101_864.get_config()))[1]
    assert head.startswith("head x1: 0.01 at step 1")


def test_the_rate_of_every_step_follows_the_formula():
    config = cityscapes_pspnet50.get_config()
    config.optimizer.learning_rate, config.optimizer.power = 0.03, 1.5
    config.optimizer.end_learning_rate, config.max_steps = 0.002, 17
    wanted = [0.002 + 0.028 * (1 - i / 17) ** 1.5 for i in range(17)] + [0.002, 0.002]
    assert schedule.learning_rates(config, list(range(17)) + [17, 30]) == pytest.approx(wanted, rel=1e-5)


def decay_lines(decay_on):
    config = _thin_network.get_config()
    config.model.width, config.optimizer.decay_on = 4, decay_on
    images, labels = tf.zeros([2, 33, 33, 3]), tf.zeros([2, 33, 33], tf.int32)
    devices = towers.tower_devices(2, "cpu")
    parts = towers.split_batch({"image": images, "label": labels}, 2)
    towers.build(network.training_model(config), parts, devices, training=True)
    return list(resolved_recipe.decay(config, tf.trainable_variables()))


def test_decay_is_counted_by_group_and_kind_of_variable():
    # A thin network of one unit a stage: 2 convolutions in the stem, 2 in each of 4 units, shortcuts in stages 2 and 3;
    # 4 pyramid bins, head and aux; 2 classifiers with biases.
    assert decay_lines("all") == [
        "backbone: 0.0001 on 36 of 36 variables (12 of 12 beta, 12 of 12 gamma, 12 of 12 kernel)",
        "head: 0.0001 on 22 of 22 variables (6 of 6 beta, 2 of 2 bias, 6 of 6 gamma, 8 of 8 kernel)"]
    tf.reset_default_graph()
    assert decay_lines("kernels") == [
        "backbone: 0.0001 on 12 of 36 variables (0 of 12 beta, 0 of 12 gamma, 12 of 12 kernel)",
        "head: 0.0001 on 8 of 22 variables (0 of 6 beta, 0 of 2 bias, 0 of 6 gamma, 8 of 8 kernel)"]


def test_the_windows_over_a_cityscapes_image():
    config = cityscapes_pspnet50.get_config()
    # ceil((2048 - 713) / 476) + 1 = 4 columns and ceil((1024 - 713) / 476) + 1 = 2 rows, each seen twice for the flip.
    assert list(resolved_recipe.windows(config, CITYSCAPES)) == [
        "crop 713x713, stride 476x476, flip on; 500 of 500 images are 1024x2048, which are seen as",
        "  1024x2048 at scale 1: 2x4 windows",
        "  forward passes: 16 for such an image, 8,000 for all"]
    config.eval.scales = SIX_SCALES
    assert list(resolved_recipe.windows(config, CITYSCAPES))[-1] == (
        "  forward passes: 162 for such an image, 81,000 for all")  # 162: as the published description counts them


def test_the_windows_at_864_and_of_images_read_at_another_size():
    config = cityscapes_pspnet101_864.get_config()
    lines = list(resolved_recipe.windows(config, CITYSCAPES))
    assert "stride 576x576" in lines[0] and lines[1] == "  1024x2048 at scale 1: 2x4 windows"
    config.input.resize = 0.5
    assert list(resolved_recipe.windows(config, CITYSCAPES))[1] == "  512x1024 at scale 1: 1x2 windows"


def test_images_of_many_sizes_are_brought_to_one_long_side():
    config = ade20k_pspnet50.get_config()
    config.eval.flip = False
    lines = list(resolved_recipe.windows(config, [(683, 512), (512, 683), (512, 683), (1600, 1200)]))
    assert lines[0].endswith("2 of 4 images are 512x683, which are seen as")
    assert lines[1] == "  384x512 at scale 1: 1x2 windows"  # padded to 473 rows; 39 columns more than one crop
    assert lines[2] == "  forward passes: 2 for such an image, 8 for all"
