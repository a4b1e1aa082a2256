"""A thin PSPNet on CamVid, real photographs of 480x360 in the Cityscapes layout, read at half their size.

    python scripts/train.py --config=configs/camvid_pspnet.py --num_gpus=4 --data_dir=/data/camvid_cityscapes

Cost: TODO minutes on two CPU cores. To reach: TODO.
"""

from configs import cityscapes_pspnet50


def get_config():
    config = cityscapes_pspnet50.get_config()
    config.batch_size = 4
    config.max_steps = 500

    config.input.crop_size = (161, 161)
    config.input.resize = 0.5
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

    config.eval.every_steps = 250
    config.eval.crop_size = (185, 241)  # the whole picture, 180x240, in one window
    config.eval.flip = False
    config.checkpoint.every_steps = 100
    config.log.summary_every_steps = 50
    return config
