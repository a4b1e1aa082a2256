"""The default: a thin PSPNet on street scenes that are drawn on first use. Nothing is downloaded.

    python scripts/train.py --num_gpus=2

Cost: 700 steps, 190 s of CPU time in all: about 2 minutes on two idle cores. To reach: val mIoU .70 over 14 classes
(.717 measured on two towers, seed 0); .ci/run fails below .60.
"""

from configs import _thin_network


def get_config():
    config = _thin_network.get_config()
    config.batch_size = 8
    config.max_steps = 700
    config.dataset = "synthetic"

    config.input.crop_size = (121, 121)

    # 1 / log(1.2 + share of the class's pixels in train), as in ENet, scaled to a mean of 1 over pixels: poles and
    # signs count as much as the road in the mIoU, and 700 steps are few. Classes that are not drawn: 1.
    config.loss.class_weights = (
        0.70, 1.41, 0.90, 1.0, 1.0, 1.41, 1.56, 1.54, 0.99, 1.52, 1.34, 1.43, 1.57, 1.19, 1.0, 1.50, 1.0, 1.0, 1.52)
    config.optimizer.learning_rate = 0.1

    config.eval.every_steps = 350
    config.eval.crop_size = (129, 257)  # the whole scene, 128x256, in one window
    config.checkpoint.every_steps = 350
    config.log.every_steps = 20
    return config
