"""What the networks keep in memory for the backward pass, with and without recomputation."""

import pytest
import tensorflow.compat.v1 as tf

import towers
from models import losses, pspnet
from tests.models.test_pspnet import config
from tests.towers.test_recomputation import kept


@pytest.mark.long
def test_pspnet_50_keeps_six_tenths_of_its_activations_where_cheap_ones_are_recomputed():
    network = config(backbone="resnet50", pyramid_channels=512, head_channels=512, aux_channels=256, norm="sync")

    def model(image, label):
        outputs = pspnet.pspnet(image, network, 19)
        return sum(tf.cast(tf.reduce_mean(losses.segmentation_loss(outputs[name], label)), tf.float32)
                   for name in ("logits", "aux_logits"))

    sizes = {}
    for recompute in (False, True):
        with tf.Graph().as_default() as graph:
            parts = [(tf.zeros([1, 473, 473, 3]), tf.zeros([1, 473, 473], tf.int32))]
            towers.build_train_step(model, parts, tf.train.MomentumOptimizer(.1, .9), ["/cpu:0"], recompute=recompute)
            sizes[recompute] = sum(kept(graph).values())
    assert 250e6 < sizes[False] < 320e6  # float32 elements, 4 bytes each
    assert sizes[True] < .6 * sizes[False]
