"""From PNGs of 2048x1024 to augmented crops: `inputs.pipeline`, or the same in OpenCV, on two worker threads.

    python -m scripts.contestants.input_pipeline --way=ours --images=24 --data_dir=runs/benchmark/photographs

Both see the same images in the same order with the same drawn numbers (of scale, angle, blur, mirroring and place), and give
normalised float32 crops and int32 labels, one at a time. A step is a pass over `--images` images.
"""

import argparse
import os

import tensorflow.compat.v1 as tf

from inputs import augmentation, examples, pipeline
from scripts.contestants import measurement, opencv_augmentation, photographs

SEED = 0
SET_UP = 6  # crops before the first that counts, until what is prefetched is there


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=("ours", "opencv"), required=True)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--data_dir", required=True, help="folder of the images, which are drawn where missing")
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--crop", type=int, default=713)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    args = parser.parse_args()
    tf.disable_eager_execution()
    measurement.report(measure(args), ("tensorflow", "numpy", "opencv-python-headless"))


def measure(args):
    """The result of a run with parsed arguments, a dict; `images` is how many a step has."""
    found = files(args)
    with tf.Graph().as_default(), tf.Session(config=threads(args.workers)) as session:
        crops = (ours if args.way == "ours" else opencv)(args, found, session)
        for _ in range(SET_UP):
            next(crops)

        def one_pass():
            for _ in range(args.images):
                next(crops)

        result = measurement.timed(one_pass, args.steps, args.warmup)
        crops.close()
    return dict(result, images=args.images)


def files(args):
    """The list of `Example`."""
    paths = photographs.draw(args.data_dir, photographs.DISTINCT, (args.height, args.width))
    return [examples.Example(os.path.basename(image), "", image, label) for image, label in paths]


def threads(workers):
    return tf.ConfigProto(intra_op_parallelism_threads=workers, inter_op_parallelism_threads=workers)


def ours(args, found, session):
    """Yields (image, label) crops of `inputs.pipeline`, endlessly."""
    dataset = pipeline.train_dataset(found, 1, SEED, crop_size=(args.crop, args.crop), num_parallel=args.workers)
    batch = tf.data.make_one_shot_iterator(dataset).get_next()
    while True:
        values = session.run({"image": batch["image"], "label": batch["label"]})
        yield values["image"][0], values["label"][0]


def opencv(args, found, session):
    """Yields the same crops from OpenCV, as many as are asked for, and works ahead as `ours` does."""
    params = parameters(args.crop)
    count = SET_UP + args.images * (args.steps + args.warmup) + 2 * args.workers + opencv_augmentation.PREFETCH
    order = draws(len(found), count, params, session)
    jobs = ((found[index].image_path, found[index].label_path, drawn, params) for index, drawn in order)
    return opencv_augmentation.crops(jobs, args.workers)


def parameters(crop):
    """The recipe's `augmentation.Params`, as the defaults of `pipeline.train_dataset` have them."""
    defaults = pipeline.train_dataset.__kwdefaults__
    return augmentation.Params((crop, crop), *(defaults[name] for name in augmentation.Params._fields[1:]))


def draws(num_examples, count, params, session):
    """What `pipeline.train_dataset` draws for its first `count` examples: a list of (index, dict of numbers)."""
    dataset = pipeline.example_order(num_examples, SEED)
    position = tf.data.make_one_shot_iterator(dataset).get_next()
    key = pipeline.augmentation_key(SEED, position["epoch"], position["index"])
    drawn = augmentation.draw_parameters(key, params)
    return [session.run((position["index"], drawn)) for _ in range(count)]


if __name__ == "__main__":
    main()
