"""ResNet-20 on CIFAR-10: He et al. (CVPR 2016, section 4.2), at half their batch and so for twice their steps.

    python scripts/train_classifier.py --config=configs/cifar10_resnet.py --num_gpus=4 --data_dir=/data/cifar-10-batches-bin

Cost: 128,000 steps of 64 pictures, 164 epochs; a step takes 0.4 s of CPU time, all of them some 14 hours of it. To reach:
test accuracy .9125, which the paper reports for this network with a batch of 128 and a weight decay of 1e-4. Not run to
its end here.

This file is the full list of settings of train_classifier.py.
"""

from ml_collections import config_dict


def get_config():
    config = config_dict.ConfigDict()

    config.seed = 0
    config.batch_size = 64  # of all towers together
    config.max_steps = 128_000
    config.dataset = "cifar10"
    config.num_classes = 10
    config.train_split = "train"
    config.eval_split = "test"

    config.input = config_dict.ConfigDict(dict(
        pad=4,  # pixels on each side, with the mean, before a 32x32 crop is drawn
        flip_probability=0.5,
        mean=(125.3, 123.0, 113.9),  # RGB, 0 to 255, of the 50,000 training pictures
        std=(63.0, 62.1, 66.7),
        shuffle=True,
        num_parallel=4,
    ))
    config.model = config_dict.ConfigDict(dict(
        name="cifar_resnet",
        units=3,  # n, units a stage: 6n+2 layers
        width=16,  # channels of the first stage
        norm="sync",  # "sync": statistics over all towers; "plain": each tower its own
        norm_statistics="sum",  # or "concat"
        norm_group_size=config_dict.placeholder(int),  # sync: how many towers in a row share statistics; all if unset
        norm_momentum=0.9,
        norm_epsilon=1e-5,
    ))
    config.optimizer = config_dict.ConfigDict(dict(
        name="momentum",
        momentum=0.9,
        learning_rate=0.1,
        boundaries=(64_000, 96_000),  # from each of these steps on, counted from 0, the rate is multiplied by factor
        factor=0.1,
        weight_decay=5e-4,
        decay_on="all",  # "all": biases, gammas and betas too; "kernels": only these
    ))
    config.eval = config_dict.ConfigDict(dict(every_steps=3_910, batch_size=250))
    config.checkpoint = config_dict.ConfigDict(dict(every_steps=3_910, keep=3))
    config.log = config_dict.ConfigDict(dict(every_steps=100, summary_every_steps=100))
    return config
