"""PSPNet on ResNet-50, ADE20K scene parsing, 150 classes: the recipe of the authors' PyTorch code (hszhao/semseg).

    python scripts/import_weights.py --config=configs/ade20k_pspnet50.py \\
        --weights=resnet50_v2.pth --format=semseg_init --output=pretrained/semseg50_ade20k
    python scripts/train.py --config=configs/ade20k_pspnet50.py --num_gpus=8 --data_dir=/data/ADEChallengeData2016 \\
        --config.init_checkpoint=pretrained/semseg50_ade20k

Cost: 126,300 steps of 16 crops of 473x473; published on 8 GPUs, 2 crops each: 14 hours on RTX 2080 Ti. To reach:
val mIoU .4189, mean accuracy .5227, pixel accuracy .8039, at one scale with flip (.4284 / .5266 / .8106 at six
scales): the figures semseg reports for this network from ImageNet weights.
"""

from configs import cityscapes_pspnet50


def get_config():
    config = cityscapes_pspnet50.get_config()
    config.max_steps = 126_300  # 100 epochs of 1,263: an epoch's last, smaller batch is not counted
    config.dataset = "ade20k"
    config.num_classes = 150
    config.train_split = "training"
    config.eval_split = "validation"

    config.input.crop_size = (473, 473)
    config.eval.every_steps = 12_630
    config.eval.crop_size = (473, 473)
    config.eval.long_side = 512  # images of all sizes: scale 1 is this long
    config.checkpoint.every_steps = 1_263
    return config
