"""A thin PSPNet on CamVid, real photographs of 480x360 in the Cityscapes layout, read at half their size.

    python scripts/train.py --config=configs/camvid_pspnet.py --num_gpus=4 --data_dir=/data/camvid_cityscapes

Cost: 1,000 steps, 300 s of CPU time in all: about 3 minutes on two idle cores. To reach: val mIoU .45 over the 11
classes present (.450, .450 and .447 measured with seeds 0, 1 and 2, on four towers of one image each).
"""

from configs import _thin_network


def get_config():
    config = _thin_network.get_config()
    config.batch_size = 4
    config.max_steps = 1000

    config.input.crop_size = (161, 161)
    config.input.resize = 0.5

    # 1 / log(1.1 + share of the class's pixels in train), as in ENet, scaled to a mean of 1 over pixels: the thin
    # classes count as much as the large ones in the mIoU, and 1000 steps are few. Absent classes: 1.
    config.loss.class_weights = (
        0.67, 1.75, 0.81, 1.0, 2.26, 2.28, 1.0, 2.25, 1.31, 1.0, 0.98, 2.35, 1.0, 1.6, 1.0, 1.0, 1.0, 1.0, 2.44)
    config.optimizer.learning_rate = 0.05

    config.eval.every_steps = 500
    config.eval.crop_size = (185, 241)  # the whole picture, 180x240, in one window
    config.checkpoint.every_steps = 100
    return config
