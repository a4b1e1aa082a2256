"""The default: a thin PSPNet on street scenes that are drawn on first use. Nothing is downloaded.

    python scripts/train.py --num_gpus=2

Cost: TODO minutes on two CPU cores. To reach: TODO.
"""

from configs import cityscapes_pspnet50


def get_config():
    config = cityscapes_pspnet50.get_config()
    config.batch_size = 8
    config.max_steps = 300
    config.dataset = "synthetic"

    config.input.crop_size = (121, 121)
    config.input.scale_range = (0.75, 1.5)
    config.input.rotate_probability = 0.0
    config.input.blur_probability = 0.0
    config.input.num_parallel = 2
    config.input.cache = True

    config.model.backbone = "thin_resnet"
    config.model.width = 16
    config.model.pyramid_channels = 32
    config.model.head_channels = 64
    config.model.aux_channels = 32

    config.loss.mean = "global"
    config.optimizer.learning_rate = 0.05
    config.optimizer.head_lr_multiplier = 1.0

    config.eval.every_steps = 100
    config.eval.crop_size = (129, 257)  # the whole scene, 128x256, in one window
    config.eval.flip = False
    config.checkpoint.every_steps = 100
    config.log.summary_every_steps = 50
    return config
