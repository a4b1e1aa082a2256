"""The configured network, as it is trained and as it is used afterwards.

`training_model` is the model function that the towers run; `TrainedNetwork` is the same network in a graph
and a session of its own, filled with weights from a checkpoint or from a running training.
"""

import tensorflow.compat.v1 as tf

import towers
from models import folded_norm, inference, losses, pspnet
from scripts import checkpoints, schedule
from scripts.commandline import UsageError

BACKBONE = "resnet/"  # every other variable is the head's
GROUPS = ("backbone", "head")


def check_crop(config, name):
    """UsageError, naming the setting and the nearest sizes, unless the network takes crops of config.NAME."""
    height, width = config.input.crop_size if name == "input.crop_size" else config.eval.crop_size
    model = config.model
    try:
        pspnet.check_input_size(height, width, model.align_corners, model.pyramid, model.pyramid_bins)
    except ValueError as error:
        raise UsageError("config.{} is {}x{}: {}".format(name, height, width, error)) from error


def training_model(config):
    """A model function of `image` [n, h, w, 3] and `label` [n, h, w] for `towers.build_train_step`."""

    def model_fn(image, label):
        outputs = pspnet.pspnet(image, config.model, config.num_classes)
        result = losses.pspnet_loss(outputs, label, config.loss, config.ignore_label)
        result["prediction"] = tf.argmax(outputs["logits"], axis=-1, output_type=tf.int32)  # for pictures
        return result

    return model_fn


def train_step(config, parts, devices, cluster=None, **aggregation):
    """The recipe's step: SGD with momentum on `training_model`, with its schedule, decay and multipliers.

        v ← momentum · v + m · (∂L/∂w + λ·w),  w ← w - lr(i) · v        m: the group's `lr_multiplier`

    Args:
        config: the configuration.
        parts: one dict of 'image' and 'label' a tower.
        devices: device strings, one a tower.
        cluster: the `towers.Cluster`, or None.
        **aggregation: `aggregation_device` and `reduction` of `towers.build_train_step`.

    Returns:
        (`towers.TrainStep`, the scalar tensor of the step's learning rate).
    """
    rate = schedule.learning_rate(config, tf.train.get_or_create_global_step())
    optimizer = tf.train.MomentumOptimizer(rate, config.optimizer.momentum)
    transform = gradient_transform(config)
    step = towers.build_train_step(training_model(config), parts, optimizer, devices, gradient_transform=transform,
                                   cluster=cluster, accumulate_steps=config.accumulate_steps,
                                   precision=config.precision, recompute=config.recompute, check_finite=True,
                                   **aggregation)
    return step, rate


def group(variable):
    """The group of a variable, whose learning rate it has: 'backbone' or 'head'."""
    return "backbone" if variable.op.name.startswith(BACKBONE) else "head"


def lr_multiplier(config, group_name):
    """What the learning rate of a group is multiplied by."""
    return config.optimizer.head_lr_multiplier if group_name == "head" else 1.0


def weight_decay(config, variable):
    """λ of a trainable variable: with decay_on='kernels' biases, gammas and betas have 0."""
    optimizer = config.optimizer
    decays = optimizer.decay_on == "all" or variable.op.name.split("/")[-1].endswith("kernel")
    return optimizer.weight_decay if decays else 0.0


def gradient_transform(config):
    """Adds the weight decay λ·w, then multiplies the head's gradients: equal to a learning rate of its own."""

    def transform(grads_and_vars):
        pairs = []
        for gradient, variable in grads_and_vars:
            if gradient is not None:
                decay, multiplier = weight_decay(config, variable), lr_multiplier(config, group(variable))
                if decay:
                    gradient += decay * variable
                if multiplier != 1:
                    gradient *= multiplier
            pairs.append((gradient, variable))
        return pairs

    return transform


class WeightsInSession:
    """A graph's variables in a session of its own, filled from a checkpoint or from a running training.

    Attributes: `graph`, `variables` (a list) and `session`.
    """

    def __init__(self, graph, variables, devices):
        self.graph, self.variables = graph, variables
        self.session = tf.Session(graph=graph, config=towers.session_config(devices))

    def load(self, values):
        """Takes weights: a mapping from variable name to array, all of this network's among them."""
        # Every value is fed where its initial value would come from: no file, and no op added to the graph.
        initializers = [variable.initializer for variable in self.variables]
        self.session.run(
            initializers,
            {
                initializer.inputs[1]: values[variable.op.name]
                for initializer, variable in zip(initializers, self.variables)
            },
        )

    def load_checkpoint(self, path):
        """Takes the weights of a checkpoint; ValueError with what differs if it is of another network or of no use."""
        self.load(checkpoints.read(path, self.variables))


class TrainedNetwork(WeightsInSession):
    """The network for inference: a graph, a session, and a sliding-window `predictor` in it.

    Args:
        config: the configuration it was trained with; its `eval` part says how windows are laid.
        devices: device strings, one a tower.
    """

    def __init__(self, config, devices):
        graph = tf.Graph()
        with graph.as_default():
            tf.set_random_seed(0)  # never drawn from, but TensorFlow's deterministic mode refuses initial values without
            self.predictor = inference.SlidingWindowPredictor(
                lambda images: pspnet.pspnet(
                    images, config.model, config.num_classes, folded_norm.folded_normalisation(config.model))["logits"],
                config.num_classes,
                devices,
                config.eval.crop_size,
                config.input.mean,
                config.input.std,
                stride_rate=config.eval.stride_rate,
                scales=config.eval.scales,
                flip=config.eval.flip,
                resize=config.input.resize,
                long_side=config.eval.long_side,
            )
            super().__init__(graph, tf.global_variables(), devices)
