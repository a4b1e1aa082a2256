"""The networks of the benchmark, for any norm: a PSPNet as the recipes have it, or a ResNet that classifies images.

    pspnet50, pspnet101   the network of configs/cityscapes_pspnet50.py, with its auxiliary head
    thin_pspnet           that of configs/synthetic_pspnet.py
    resnet50              the backbone of pspnet50 → mean over places → dense, 1000 classes
    small_resnet          the same with one bottleneck a stage and 16 channels, for trials
"""

import tensorflow.compat.v1 as tf

import towers
from configs import cityscapes_pspnet50, synthetic_pspnet
from models import losses, pspnet, resnet
from scripts.contestants import hand_split

UNITS = {"resnet50": (resnet.UNITS["resnet50"], 64), "small_resnet": ((1, 1, 1, 1), 16)}
PSPNETS = ("pspnet50", "pspnet101", "thin_pspnet")
NETWORKS = PSPNETS + tuple(UNITS)
CLASSES = 1000  # of a classifier
NORMS = ("sync", "plain", "hand_split")


def configuration(network):
    """The configuration of a PSPNet."""
    config = (synthetic_pspnet if network == "thin_pspnet" else cityscapes_pspnet50).get_config()
    if network == "pspnet101":
        config.model.backbone = "resnet101"
    return config


def is_classifier(network):
    return network in UNITS


def label_shape(network, batch, crop):
    """Of a batch: a class an image, or one a pixel."""
    return [batch] if is_classifier(network) else [batch, crop, crop]


def num_classes(network):
    return CLASSES if is_classifier(network) else configuration(network).num_classes


def model(network, norm_name):
    """A model function of `image` and `label` for `towers.build_train_step`; it returns a scalar loss."""
    config = configuration(network)
    norm = normalisation(config, norm_name)

    def pspnet_loss(image, label):
        outputs = pspnet.pspnet(image, config.model, config.num_classes, norm)
        return losses.pspnet_loss(outputs, label, config.loss, config.ignore_label)["loss"]

    def classifier_loss(image, label):
        units, width = UNITS[network]
        x = resnet.resnet(image, units, norm, width=width)["stage4"]
        logits = towers.layers.dense(tf.reduce_mean(x, axis=[1, 2]), CLASSES, name="logits")
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))

    return classifier_loss if is_classifier(network) else pspnet_loss


def normalisation(config, norm_name):
    """`norm(inputs, name=...)`: over all towers, each tower's own, or over activations brought to one device."""
    if norm_name == "hand_split":
        return hand_split.norm
    config.model.norm = norm_name
    return pspnet.normalisation(config.model)
