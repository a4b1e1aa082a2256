"""PSPNet on ResNet-101 at a crop of 864, Cityscapes fine annotations: the TensorFlow reproduction by holyseven.

    python scripts/import_weights.py --config=configs/cityscapes_pspnet101_864.py \\
        --weights=resnet_v1_101.ckpt --format=slim --output=pretrained/slim101_864
    python scripts/train.py --config=configs/cityscapes_pspnet101_864.py --num_gpus=4 --data_dir=/data/cityscapes \\
        --config.init_checkpoint=pretrained/slim101_864

Cost: 50,000 steps of 8 crops of 864x864; published on 4 GPUs, 2 crops each. To reach: val mIoU .779 at one
scale, the figure of github.com/holyseven/PSPNet-TF-Reproduce for plain weight decay from ImageNet weights
(slim's resnet_v1_101); .786 there with L2-SP, decay towards those weights, which is not done here.

Not copied: its batch norm normalised with the unbiased variance. Its colour jitter (brightness, saturation,
contrast) is not among the augmentations here; blur and rotation, which it has not, are off.
"""

from configs import cityscapes_pspnet50


def get_config():
    config = cityscapes_pspnet50.get_config()
    config.batch_size = 8
    config.max_steps = 50_000

    config.input.crop_size = (864, 864)  # a multiple of 8, and 864 / 8 = 108 of every pyramid bin
    config.input.rotate_probability = 0.0
    config.input.blur_probability = 0.0
    config.input.mean = (72.41519599, 82.93553322, 73.18188461)  # of the Cityscapes images
    config.input.std = (1.0, 1.0, 1.0)

    config.model.backbone = "resnet101"
    config.model.stem = "7x7"
    config.model.pyramid = "average"
    config.model.align_corners = False

    config.loss.mean = "global"
    config.optimizer.decay_on = "kernels"
    config.optimizer.head_lr_multiplier = 1.0

    config.eval.every_steps = 5_000
    config.eval.crop_size = (864, 864)
    config.checkpoint.every_steps = 1_000
    return config
