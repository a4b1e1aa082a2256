"""The network against a float64 NumPy forward pass; its promises about sizes, heads, dropout and towers."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import pspnet, resnet
from tests.models.numpy_network import NumpyNetwork
from tests.models.test_resnet import load, random_weights

CLASSES = 5


def config(**changes):
    values = dict(
        backbone="thin_resnet",
        stem="deep",
        width=3,
        pyramid="adaptive",
        pyramid_bins=(1, 2, 3, 6),
        pyramid_channels=4,
        head_channels=6,
        aux_channels=3,
        align_corners=True,
        dropout=0.0,
        norm="plain",
        norm_statistics="sum",
        norm_group_size=None,
        norm_momentum=0.9,
        norm_epsilon=1e-5,
    )
    assert set(changes) <= set(values)
    return types.SimpleNamespace(**dict(values, **changes))


def build(images, training=False, num_towers=1, num_classes=CLASSES, **changes):
    """Outputs of each tower."""
    return towers.build(
        lambda x: pspnet.pspnet(x, config(**changes), num_classes),
        towers.split_batch((images,), num_towers),
        ["/cpu:0"] * num_towers,
        training=training,
    )


def photographs(size, seed=1, count=2):
    return np.random.RandomState(seed).randn(count, size[0], size[1], 3)


@pytest.fixture
def small_resnet50(monkeypatch):
    """Lets the name 'resnet50' build a small network of the same kind: bottlenecks, either stem."""
    whole = resnet.resnet
    monkeypatch.setattr(
        pspnet.resnet,
        "resnet",
        lambda images, name, norm, stem: whole(images, (1, 1, 1, 1), norm, stem, width=2),
    )


# 41 gives features of 6, which every bin divides; 49 of 7, where the windows of bins 2, 3 and 6 overlap.
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "backbone, kind", [("thin_resnet", "thin"), ("resnet50", "deep"), ("resnet50", "7x7")]
)
@pytest.mark.parametrize(
    "size, align_corners, pyramid",
    [
        ((41, 41), True, "average"),
        ((49, 57), True, "adaptive"),
        ((48, 96), False, "average"),
        ((40, 56), False, "adaptive"),
    ],
)
def test_logits_equal_numpy(small_resnet50, size, align_corners, pyramid, backbone, kind, training):
    images = photographs(size)
    outputs = build(
        tf.constant(images),
        training,
        backbone=backbone,
        stem=kind,
        align_corners=align_corners,
        pyramid=pyramid,
    )[0]
    with tf.Session() as session:
        weights = random_weights(session)
        logits = session.run(outputs["logits"])
        aux_logits = session.run(outputs["aux_logits"]) if training else None
    expected, expected_aux = NumpyNetwork(weights, training).pspnet(images, kind, (1, 2, 3, 6), align_corners)
    assert logits.shape == (2,) + size + (CLASSES,) and expected.std() > 0.1
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-7)
    if training:
        np.testing.assert_allclose(aux_logits, expected_aux, rtol=0, atol=1e-7)
    else:
        assert outputs["aux_logits"] is None


def test_gradients_equal_differences_of_the_numpy_network():
    images = photographs((33, 41))
    outputs = build(tf.constant(images), training=True)[0]
    direction = np.random.RandomState(2).randn(2, 33, 41, CLASSES)
    loss = tf.reduce_sum(outputs["logits"] * direction) + tf.reduce_sum(outputs["aux_logits"] * direction)
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables)
    with tf.Session() as session:
        weights = random_weights(session)
        gradients = session.run(gradients)
    rng, slope, steps = np.random.RandomState(3), 0.0, {}
    for variable, gradient in zip(variables, gradients):
        steps[variable.op.name] = rng.randn(*gradient.shape)
        slope += (steps[variable.op.name] * gradient).sum()

    def value(step):
        moved = {name: w + step * steps.get(name, 0) for name, w in weights.items()}
        logits, aux = NumpyNetwork(moved, training=True).pspnet(images, "thin", (1, 2, 3, 6), True)
        return (logits * direction).sum() + (aux * direction).sum()

    assert slope == pytest.approx((value(1e-7) - value(-1e-7)) / 2e-7, rel=1e-4)


def test_float32_logits_agree_to_1e_4():
    images = photographs((49, 57)).astype(np.float32)
    logits = build(tf.constant(images))[0]["logits"]
    with tf.Session() as session:
        weights = random_weights(session)
        result = session.run(logits)
    assert result.dtype == np.float32
    expected, _ = NumpyNetwork(weights).pspnet(images.astype(np.float64), "thin", (1, 2, 3, 6), True)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)


def test_sizes_may_be_unknown_until_the_graph_runs_and_are_checked_then():
    images = tf.placeholder(tf.float64, [None, None, None, 3])
    logits = build(images)[0]["logits"]
    value = photographs((33, 57))
    with tf.Session() as session:
        weights = random_weights(session)
        expected, _ = NumpyNetwork(weights).pspnet(value, "thin", (1, 2, 3, 6), True)
        np.testing.assert_allclose(session.run(logits, {images: value}), expected, rtol=0, atol=1e-7)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be.*8n.1.*but are"):
            session.run(logits, {images: photographs((33, 56))})


@pytest.mark.parametrize("training", [False, True])
def test_synchronised_towers_equal_one_device_and_plain_ones_do_not(training):
    images = photographs((33, 41), count=3)  # two on the first tower, one on the second
    results = {}
    for norm, num_towers in (("plain", 1), ("sync", 2), ("plain", 2)):
        tf.reset_default_graph()
        outputs = build(tf.constant(images), training, num_towers, norm=norm)
        with tf.Session() as session:
            random_weights(session)
            results[norm, num_towers] = np.concatenate(session.run([o["logits"] for o in outputs]))
    np.testing.assert_allclose(results["sync", 2], results["plain", 1], rtol=0, atol=1e-8)
    apart = abs(results["plain", 2] - results["plain", 1]).max()
    assert apart > 0.1 if training else apart < 1e-8


def test_dropout_drops_whole_channels_of_an_example_in_training_only():
    images = photographs((33, 41), count=8)
    outcomes = {}
    for training, dropout in ((True, 0.0), (True, 0.5), (False, 0.5), (False, 0.0)):
        tf.reset_default_graph()
        tf.set_random_seed(7)
        logits = build(tf.constant(images), training, head_channels=CLASSES, dropout=dropout)[0]["logits"]
        with tf.Session() as session:
            random_weights(session)
            load(
                session,
                {
                    "pspnet/head/logits/kernel": np.eye(CLASSES)[None, None],  # hands its input through
                    "pspnet/head/logits/bias": np.zeros(CLASSES),
                },
            )
            outcomes[training, dropout] = session.run(logits)
    np.testing.assert_allclose(outcomes[False, 0.5], outcomes[False, 0.0], rtol=0, atol=1e-12)
    whole, dropped = outcomes[True, 0.0], outcomes[True, 0.5]
    kept = dropped.any(axis=(1, 2))
    np.testing.assert_allclose(dropped, 2 * whole * kept[:, None, None], rtol=0, atol=1e-9)
    alive = whole.any(axis=(1, 2))
    assert 0.2 < kept[alive].mean() < 0.8 and len(np.unique(kept, axis=0)) > 1


def test_everything_that_is_not_head_is_under_resnet():
    build(tf.zeros([1, 33, 33, 3]), training=True)
    norm = ["/beta", "/gamma", "/moving_mean", "/moving_variance"]
    scopes = ["pspnet/pyramid/bin%d" % b for b in (1, 2, 3, 6)] + ["pspnet/head", "pspnet/aux"]
    expected = [scope + "/conv/kernel" for scope in scopes] + [
        scope + "/bn" + n for scope in scopes for n in norm
    ]
    expected += [
        "pspnet/%s/logits/%s" % (head, kind) for head in ("head", "aux") for kind in ("kernel", "bias")
    ]
    names = [v.op.name for v in tf.global_variables()]
    assert sorted(n for n in names if not n.startswith("resnet/")) == sorted(expected)


def test_heads_start_uniform_within_one_over_root_fan_in():
    build(tf.zeros([1, 33, 33, 3]), training=True, head_channels=64, pyramid_channels=64, num_classes=300)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            name = variable.op.name
            if name.startswith("pspnet/") and name.endswith(("kernel", "bias")):
                kernel = next(
                    v for v in tf.trainable_variables() if v.op.name == name.replace("bias", "kernel")
                )
                bound, value = np.prod(kernel.shape.as_list()[:3]) ** -0.5, session.run(variable)
                assert abs(value).max() <= bound * (1 + 1e-6), name
                if value.size >= 300:
                    assert value.std() == pytest.approx(bound / 3**0.5, rel=0.15), name


def test_without_auxiliary_channels_there_is_no_auxiliary_head():
    assert build(tf.zeros([1, 33, 33, 3]), training=True, aux_channels=0)[0]["aux_logits"] is None
    assert not any("aux" in v.op.name for v in tf.global_variables())


@pytest.mark.parametrize(
    "size, options, nearest",
    [
        ((712, 713), {}, "height 712.*nearest are 705 and 713"),
        ((713, 720), {}, "width 720.*nearest are 713 and 721"),
        ((1, 9), {}, "height 1 .*nearest are 9$"),
        ((713, 712), dict(align_corners=False), "height 713.*712 and 720"),
        ((864, 872), dict(align_corners=False, pyramid="average"), "width 872.*864 and 912"),
        ((721, 713), dict(pyramid="average"), "height 721.*713 and 761"),
    ],
)
def test_a_crop_that_does_not_fit_is_refused_with_the_nearest(size, options, nearest):
    with pytest.raises(ValueError, match=nearest) as error:
        pspnet.check_input_size(size[0], size[1], **options)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=nearest):
        build(tf.zeros([1, size[0], size[1], 3]), **options)


def test_crops_of_the_recipes_fit():
    pspnet.check_input_size(713, 713)
    pspnet.check_input_size(713, 713, pyramid="average")
    pspnet.check_input_size(769, 769)
    pspnet.check_input_size(512, 1024, align_corners=False)
    pspnet.check_input_size(864, 864, align_corners=False, pyramid="average")


@pytest.mark.parametrize("changes", [dict(backbone="vgg"), dict(pyramid="max"), dict(norm="group")])
def test_unknown_choices_are_refused_by_name(changes):
    ((name, value),) = changes.items()
    with pytest.raises(ValueError, match="model.{} '{}' is unknown: use one of".format(name, value)):
        build(tf.zeros([1, 33, 33, 3]), **changes)


def test_groups_of_towers_share_the_statistics_of_every_layer():
    """With one example on each of four towers, groups of two give what two towers of the same pairs give."""
    images = photographs((17, 17), count=4)

    def logits(images, **changes):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            outputs = build(tf.constant(images), training=True, norm="sync", **changes)
            session.run(tf.global_variables_initializer())
            return np.concatenate(session.run([out["logits"] for out in outputs]))

    grouped = logits(images, num_towers=4, norm_group_size=2)
    pairs = np.concatenate([logits(images[i:i + 2], num_towers=2) for i in (0, 2)])
    np.testing.assert_allclose(grouped, pairs, atol=1e-9)
    assert np.abs(grouped - logits(images, num_towers=4)).max() > 1e-3
