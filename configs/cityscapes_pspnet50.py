"""PSPNet on ResNet-50, Cityscapes fine annotations: the recipe of the authors' PyTorch code (hszhao/semseg).

    python scripts/import_weights.py --config=configs/cityscapes_pspnet50.py \\
        --weights=resnet50_v2.pth --format=semseg_init --output=pretrained/semseg50
    python scripts/train.py --config=configs/cityscapes_pspnet50.py --num_gpus=8 --data_dir=/data/cityscapes \\
        --config.init_checkpoint=pretrained/semseg50

Cost: 37,200 steps of 16 crops of 713x713; published on 8 GPUs, 2 crops each: 7 hours on RTX 2080 Ti (two CPU
cores take about 90 s for a step of 2 crops). To reach: val mIoU .7730, mean accuracy .8431, pixel accuracy
.9597, at one scale with flip (.7838 / .8486 / .9617 at six scales): the figures semseg reports for this network
from ImageNet weights.

This file is the full list of settings: the other recipes start from it and change what differs.
"""

from ml_collections import config_dict


def get_config():
    config = config_dict.ConfigDict()

    config.seed = 0
    config.batch_size = 16  # of all towers together
    config.accumulate_steps = 1  # runs of batch_size / accumulate_steps images that make one step, where memory is short
    config.recompute = False  # compute cheap activations again in the backward pass: about half of their memory
    config.precision = "float32"  # "bfloat16", "float16": activations in half the bits, weights as ever
    config.max_steps = 37_200  # 200 epochs of 186
    config.dataset = "cityscapes"  # "synthetic": scenes that are drawn on first use; "ade20k"
    config.num_classes = 19  # those of the data set
    config.ignore_label = 255
    config.train_split = "train"
    config.eval_split = "val"
    # A checkpoint, or the folder of one, that a new run starts from: see scripts/import_weights.py.
    config.init_checkpoint = config_dict.placeholder(str)

    config.input = config_dict.ConfigDict(dict(
        crop_size=(713, 713),  # height, width; 8n+1 with align-corners resizing, 8n without
        resize=1.0,  # image and label are scaled by this as they are read; scores are still at full size
        scale_range=(0.5, 2.0),
        rotate_degrees=10.0,
        rotate_probability=0.5,
        blur_probability=0.5,
        flip_probability=0.5,
        mean=(123.675, 116.28, 103.53),  # RGB, 0 to 255; also fills what augmentation leaves empty
        std=(58.395, 57.12, 57.375),
        shuffle=True,
        num_parallel=8,
        cache=False,  # keep the decoded images in memory: for small data sets
    ))
    config.synthetic = config_dict.ConfigDict(dict(  # read only where dataset is "synthetic"
        num_train=256,
        num_val=48,
        height=128,
        width=256,
        seed=0,
    ))
    config.model = config_dict.ConfigDict(dict(
        backbone="resnet50",  # "resnet50", "resnet101", "thin_resnet"
        stem="deep",  # "deep": three 3x3 convolutions; "7x7": one
        width=64,  # channels of thin_resnet's first stage; the others have their own
        pyramid="adaptive",  # "adaptive": windows as PyTorch's AdaptiveAvgPool2d; "average": plain pooling
        pyramid_bins=(1, 2, 3, 6),
        pyramid_channels=512,
        head_channels=512,
        aux_channels=256,  # 0: no auxiliary head
        align_corners=True,
        dropout=0.1,
        norm="sync",  # "sync": statistics over all towers; "plain": each tower its own
        norm_statistics="sum",  # or "concat"
        norm_group_size=config_dict.placeholder(int),  # sync: how many towers in a row share statistics; all if unset
        norm_momentum=0.9,
        norm_epsilon=1e-5,
    ))
    config.loss = config_dict.ConfigDict(dict(
        mean="tower",  # over each "tower"'s valid pixels, then over towers; or "global": over all at once
        aux_weight=0.4,
        class_weights=config_dict.placeholder(tuple),  # one weight a class
        hard_pixel_fraction=config_dict.placeholder(float),  # of each tower's valid pixels, hardest first
    ))
    config.optimizer = config_dict.ConfigDict(dict(
        name="momentum",
        momentum=0.9,
        learning_rate=0.01,
        power=0.9,  # of the polynomial decay to end_learning_rate at max_steps
        end_learning_rate=0.0,
        weight_decay=1e-4,
        decay_on="all",  # "all": biases, gammas and betas too; "kernels": only these
        head_lr_multiplier=10.0,  # for everything that is not the backbone
    ))
    config.eval = config_dict.ConfigDict(dict(
        every_steps=3_720,
        crop_size=(713, 713),
        stride_rate=2 / 3,  # stride = ceil(crop * stride_rate): 476
        scales=(1.0,),
        long_side=config_dict.placeholder(int),  # what scale 1 makes every image's long side; its own if unset
        flip=True,
        max_images=config_dict.placeholder(int),  # the first so many; all if unset
        num_pictures=4,
    ))
    config.checkpoint = config_dict.ConfigDict(dict(every_steps=930, keep=3))
    config.log = config_dict.ConfigDict(dict(every_steps=10, summary_every_steps=100))
    return config
