"""What the recipes for minutes on a CPU have in common: no recipe itself, but a part that they start from."""

from configs import cityscapes_pspnet50


def get_config():
    """cityscapes_pspnet50 with a network of some 800,000 parameters, for a few hundred images kept in memory."""
    config = cityscapes_pspnet50.get_config()

    config.model.backbone = "thin_resnet"
    config.model.width = 16
    config.model.pyramid_channels = 32
    config.model.head_channels = 64
    config.model.aux_channels = 32

    config.input.scale_range = (0.75, 1.5)
    config.input.rotate_probability = 0.0
    config.input.blur_probability = 0.0
    config.input.num_parallel = 2
    config.input.cache = True

    config.loss.mean = "global"
    config.optimizer.head_lr_multiplier = 1.0
    config.eval.flip = False
    config.log.summary_every_steps = 50
    return config
