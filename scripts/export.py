"""Exports a trained network as a SavedModel: raw images in, labels and probabilities out, batch norm folded.

    python scripts/export.py --model_dir=runs/synthetic_pspnet
    python scripts/export.py --measure --config=configs/cityscapes_pspnet50.py --image_size=713,713

Writes MODEL_DIR/saved_model, whole or not at all, after comparing it with the network as trained: probabilities may
differ by 1e-4 on a random image. Any TensorFlow loads it, without this repository (see the README). Preprocessing is
inside. Images may have any size, or with --image_size the one given, which makes the graph smaller; one pass looks at
the whole image at one scale, without windows and flip.

With --measure nothing is exported: ops, variables, size on disk and time of the network with variables, frozen, and
folded are printed, the runs taken in turns. --config measures a recipe with drawn weights, no run needed.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import numpy as np
import tensorflow.compat.v1 as tf
from absl import flags

from scripts import checkpoints, configuration, datasets, export_measurement, exporting, inference_flags
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
inference_flags.define_model()
CONFIG = configuration.define_flag(None)
flags.DEFINE_string("output", None, "Folder of the SavedModel; unset: MODEL_DIR/saved_model.")
flags.DEFINE_bool("overwrite", False, "Replace a SavedModel that is there already.")
flags.DEFINE_list("image_size", None, "height,width of the images it will take; unset: any size.")
flags.DEFINE_bool("fold", True, "Fold batch norm into the convolutions.")
flags.DEFINE_bool("measure", False, "Measure instead of exporting.")
flags.DEFINE_integer("rounds", 5, "With --measure: how often each is timed, in turns.", lower_bound=1)


def main():
    size = image_size()
    if FLAGS.config is not None and not FLAGS.measure:
        raise UsageError("--config goes with --measure; what is exported is the run of --model_dir")
    if FLAGS.config is not None:
        network = exporting.WholeImageNetwork(configuration.load(CONFIG), size)
        network.load(export_measurement.drawn_weights(network.variables))
    else:
        config, checkpoint = inference_flags.read_model(FLAGS)
        output = FLAGS.output or os.path.join(FLAGS.model_dir, "saved_model")
        if not FLAGS.measure:
            check_output(output)
        network = exporting.WholeImageNetwork(config, size)
        network.load_checkpoint(checkpoint)
    if FLAGS.measure:
        print(export_measurement.measure(network, FLAGS.rounds))
    else:
        export(config, checkpoint, network, output)


def export(config, checkpoint, network, output):
    graph = network.frozen(FLAGS.fold)
    data_set = datasets.of(config)
    description = {
        "checkpoint": checkpoint,
        "step": checkpoints.verified_step(checkpoint),
        "image_size": list(network.size) if network.size else None,
        "class_names": list(data_set.class_names),
        "label_file_values": [int(data_set.file_values[k]) for k in range(data_set.num_classes)],
        "folded": FLAGS.fold,
    }
    height, width = network.size or config.eval.crop_size
    picture = np.random.RandomState(0).randint(0, 256, (1, height, width, 3)).astype(np.uint8)
    differences = []

    def check(path):
        differences.append(exporting.largest_difference(network, path, picture))
        if not differences[0] <= exporting.TOLERANCE:
            raise ValueError("the exported network's probabilities differ from the trained one's by {:.3g}, more than {:g}: "
                             "nothing is written; --nofold exports it as it is".format(differences[0], exporting.TOLERANCE))

    exporting.write(output, graph.graph_def, description, check)
    shape = "[N, {}, {}, 3]".format(*network.size or ("H", "W"))
    print("{}: step {}".format(checkpoint, description["step"]))
    print("{} batch norms folded, {} left; {} ops; probabilities differ by {:.1e}".format(
        graph.num_folded, graph.num_left, len(graph.graph_def.node), differences[0]))
    print("images uint8 {}, or float32 0 to 255 with the signature float_images; gives labels and probabilities".format(shape))
    print("written: {}".format(output))


def check_output(output):
    if os.path.exists(output) and not FLAGS.overwrite:
        raise UsageError("{} is there already: use --overwrite or another --output".format(output))
    if os.path.exists(output) and os.listdir(output) and not os.path.exists(os.path.join(output, "saved_model.pb")):
        raise UsageError("{} is no SavedModel and will not be replaced: name another --output".format(output))
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UsageError("--output={}: its folder does not exist".format(output))


def image_size():
    """The (height, width) that --image_size names, or None."""
    if FLAGS.image_size is None:
        return None
    try:
        size = [int(text) for text in FLAGS.image_size]
    except ValueError:
        size = []
    if len(size) != 2 or min(size) < 1:
        raise UsageError("--image_size={}: wanted height,width in pixels".format(",".join(FLAGS.image_size)))
    return tuple(size)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
