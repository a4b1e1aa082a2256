"""PSPNet on ResNet-101, Cityscapes fine annotations: as cityscapes_pspnet50 but for the depth.

    python scripts/import_weights.py --config=configs/cityscapes_pspnet101.py \\
        --weights=resnet101_v2.pth --format=semseg_init --output=pretrained/semseg101
    python scripts/train.py --config=configs/cityscapes_pspnet101.py --num_gpus=8 --data_dir=/data/cityscapes \\
        --config.init_checkpoint=pretrained/semseg101

Cost: 37,200 steps of 16 crops of 713x713; published on 8 GPUs, 2 crops each: 10 hours on RTX 2080 Ti. To
reach: val mIoU .7863, mean accuracy .8577, pixel accuracy .9614, at one scale with flip (.7929 / .8591 / .9638
at six scales): the figures semseg reports for this network from ImageNet weights.
"""

from configs import cityscapes_pspnet50


def get_config():
    config = cityscapes_pspnet50.get_config()
    config.model.backbone = "resnet101"
    return config
