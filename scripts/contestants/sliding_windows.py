"""Evaluation of an image at one scale, with flip: this project's predictor, or a plain loop over the windows.

    python -m scripts.contestants.sliding_windows --way=ours --network=thin_pspnet --crop=129 --height=256 --width=512

The loop is how it is often written: a session run for a window, one more for its mirror image, and NumPy for the rest. Both
lay the same windows and give the same probabilities (`checksum`).
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from models import folded_norm, inference, pspnet
from scripts.contestants import measurement, networks

STRIDE_RATE = 2 / 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("ours", "naive"), required=True)
    parser.add_argument("--network", choices=networks.PSPNETS, required=True)
    parser.add_argument("--towers", type=int, default=2, help="of ours")
    parser.add_argument("--crop", type=int, default=129)
    parser.add_argument("--height", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    args = parser.parse_args()
    tf.disable_eager_execution()
    measurement.report(measure(args), ("tensorflow", "numpy"))


def measure(args):
    """The result of a run with parsed arguments, a dict; a step is one image."""
    config = networks.configuration(args.network)
    image = np.random.RandomState(0).randint(0, 256, (args.height, args.width, 3)).astype(np.uint8)
    devices = towers.tower_devices(args.towers if args.way == "ours" else 1, "cpu")
    last = {}
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        predict = (ours if args.way == "ours" else naive)(config, devices, args.crop)
        with tf.Session(config=towers.session_config(devices)) as session:
            session.run(tf.global_variables_initializer())

            def one_image():
                last["probabilities"] = predict(session, image)

            result = measurement.timed(one_image, args.steps, args.warmup)
    # Of each pixel's probabilities, with weights that tell classes and places apart.
    weights = np.random.RandomState(1).uniform(size=last["probabilities"].shape)
    return dict(result, images=1, checksum=float((last["probabilities"] * weights).sum()))


def ours(config, devices, crop):
    """`predict(session, image)` by `inference.SlidingWindowPredictor`, with batch norm folded, as evaluate.py does it."""
    predictor = inference.SlidingWindowPredictor(
        lambda images: logits(images, config, folded_norm.folded_normalisation(config.model)), config.num_classes, devices,
        (crop, crop), config.input.mean, config.input.std,
        stride_rate=STRIDE_RATE, flip=True)
    return predictor.predict


def naive(config, devices, crop):
    """`predict(session, image)` by a loop over windows."""
    window = tf.placeholder(tf.float32, [1, crop, crop, 3])
    # In a build of one tower, as initial values then are those of any number.
    softmax = tf.nn.softmax(towers.build(lambda images: logits(images, config), [(window,)], devices)[0])
    mean, std = np.float32(config.input.mean), np.float32(config.input.std)

    def predict(session, image):
        height, width = image.shape[:2]
        pixels = (image.astype(np.float32) - mean) / std
        pad = [max(crop - size, 0) for size in (height, width)]
        before = [size // 2 for size in pad]
        pixels = np.pad(pixels, [(b, p - b) for b, p in zip(before, pad)] + [(0, 0)])
        total = np.zeros(pixels.shape[:2] + (config.num_classes,), np.float32)
        count = np.zeros(pixels.shape[:2] + (1,), np.float32)
        for top, left in inference.window_plan(height, width, crop, crop, STRIDE_RATE):
            part = pixels[None, top:top + crop, left:left + crop]
            plain = session.run(softmax, {window: part})[0]
            mirrored = session.run(softmax, {window: part[:, :, ::-1]})[0][:, ::-1]
            total[top:top + crop, left:left + crop] += (plain + mirrored) / 2
            count[top:top + crop, left:left + crop] += 1
        inside = tuple(slice(b, b + size) for b, size in zip(before, (height, width)))
        return (total / count)[inside]

    return predict


def logits(images, config, norm=None):
    return pspnet.pspnet(images, config.model, config.num_classes, norm)["logits"]


if __name__ == "__main__":
    main()
