"""What folding saves: ops, variables, bytes on disk and time of a network exported in three ways."""

import collections
import os
import re
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

from scripts import exporting

Row = collections.namedtuple("Row", "name ops variables bytes seconds cpu difference")


def measure(network, rounds):
    """Text: a line each for the network with its variables, frozen to constants, and folded.

    Each is loaded from disk and run on one image `rounds` times, in turns (A B C A B C ...), after one run that is not
    counted; medians are given, of the time and of this process's CPU time, which other processes disturb less. Ops are
    those that the outputs need.
    """
    size = network.size or (713, 713)
    image = np.random.RandomState(0).randint(0, 256, (1,) + tuple(size) + (3,)).astype(np.uint8)
    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        paths = [os.path.join(folder, name) for name in ("variables", "frozen", "folded")]
        network.save_variables(paths[0])
        for path, fold in zip(paths[1:], (False, True)):
            exporting.write(path, network.frozen(fold).graph_def, {}, check=lambda _: None)
        loaded = [exporting.Loaded(path) for path in paths]
        expected = loaded[0].run("probabilities", image)
        differences = [float(np.abs(each.run("probabilities", image) - expected).max()) for each in loaded]
        for each in loaded:
            each.run("labels", image)
        times = np.array([[_seconds(each, image) for each in loaded] for _ in range(rounds)])  # [rounds, 3, 2]
        rows = [
            Row(name, _ops(each), _variables(each), _bytes(path), wall, cpu, difference)
            for name, each, path, (wall, cpu), difference in zip(
                ("with variables", "frozen", "folded"), loaded, paths, np.median(times, axis=0), differences)
        ]
        for each in loaded:
            each.close()
    lines = ["{:<15} {:>6} {:>10} {:>9} {:>10} {:>7} {:>7} {:>7} {:>11}".format(
        "network", "ops", "variables", "MB", "s an image", "ratio", "CPU s", "ratio", "difference")]
    for row in rows:
        lines.append("{:<15} {:>6} {:>10} {:>9.2f} {:>10.4f} {:>7.3f} {:>7.3f} {:>7.3f} {:>11.1e}".format(
            row.name, row.ops, row.variables, row.bytes / 1e6, row.seconds, row.seconds / rows[0].seconds,
            row.cpu, row.cpu / rows[0].cpu, row.difference))
    lines.append("one image of {}x{}, median of {} in turns; difference: of probabilities, the largest".format(
        size[0], size[1], rounds))
    return "\n".join(lines)


def drawn_weights(variables, seed=0):
    """Values by name, moving statistics and gammas included, that keep activations and logits near 1.

    Kernels as in He et al. (2015). The last gamma of a residual unit is small, as in a trained network: a sum of
    16 units would otherwise grow until rounding decides between classes.
    """
    rng, values = np.random.RandomState(seed), {}
    for variable in variables:
        name, shape = variable.op.name, variable.shape.as_list()
        if len(shape) > 1:
            value = rng.randn(*shape) * np.sqrt(2 / np.prod(shape[:-1]))
        elif name.endswith(("gamma", "moving_variance")):
            value = rng.uniform(0.5, 1.5, shape) * (0.2 if re.search(r"/unit\d+/bn[23]/gamma$", name) else 1)
        else:
            value = rng.randn(*shape) * 0.1
        values[name] = value.astype(variable.dtype.base_dtype.as_numpy_dtype)
    return values


def _seconds(loaded, image):
    wall, cpu = time.time(), time.process_time()
    loaded.run("labels", image)
    return time.time() - wall, time.process_time() - cpu


def _ops(loaded):
    return len(tf.graph_util.extract_sub_graph(loaded.graph.as_graph_def(), list(exporting.OUTPUTS)).node)


def _variables(loaded):
    return len(loaded.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))


def _bytes(folder):
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(folder) for name in names)
