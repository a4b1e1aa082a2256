"""Does synchronised batch norm matter? Trains one configuration three ways, with several seeds, and writes a table.

    python scripts/compare_norms.py --data_dir=/data/camvid_cityscapes --seeds=0,1,2 --figure=docs/sync_bn_camvid.png

    sync    N towers that share their statistics
    plain   N towers, each with the statistics of its own images
    one     one device with all the images

All see the same images in the same order. The runs are train.py's, one after the other, in --runs_dir; those that are
finished are not repeated, so the same command goes on where it was stopped, and more seeds can be added. Arguments
behind `--` go to train.py. Cost of the command above: nine runs of about 3 minutes on two idle cores.
"""

import collections
import json
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from absl import flags

from scripts import commandline, norm_comparison
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
flags.DEFINE_string("config", os.path.join(ROOT, "configs", "camvid_pspnet.py"), "Configuration file.")
flags.DEFINE_string("data_dir", None, "Folder of the data set; unset: as train.py has it.")
flags.DEFINE_list("seeds", "0,1", "Values of config.seed, with commas between.")
flags.DEFINE_list("variants", "sync,plain,one", "Which to compare.")
flags.DEFINE_integer("num_towers", 4, "Towers of sync and plain.", lower_bound=2)
flags.DEFINE_enum("device_type", None, ["cpu", "gpu"], "What towers run on; unset: GPUs where any is visible.")
flags.DEFINE_integer("max_steps", None, "Stop each run at this step, for a trial.", lower_bound=1)
flags.DEFINE_string("runs_dir", None, "Where runs and table are kept; unset: runs/compare_norms.")
flags.DEFINE_string("figure", None, "PNG to write; unset: comparison.png in --runs_dir.")

COMMAND = "command.json"  # in a run's folder: the arguments it was started with


class Variant(collections.namedtuple("Variant", "name towers norm")):
    """One way to train: its name, number of towers and config.model.norm."""

    def title(self, batch_size):
        images = "{:g} image{}".format(batch_size / self.towers, "s" if batch_size != self.towers else "")
        if self.towers == 1:
            return "one device, {}".format(images)
        statistics = {"sync": "sync BN", "plain": "each its own statistics"}[self.norm]
        return "{} towers x {}, {}".format(self.towers, images, statistics)


def main(arguments):
    runs_dir = os.path.abspath(FLAGS.runs_dir or os.path.join(ROOT, "runs", "compare_norms"))
    figure = FLAGS.figure or os.path.join(runs_dir, "comparison.png")
    if FLAGS.figure and not os.path.isdir(os.path.dirname(os.path.abspath(figure))):
        raise UsageError("--figure={}: its folder does not exist".format(figure))
    if not os.path.isfile(FLAGS.config):
        raise UsageError("no configuration file at {!r}".format(FLAGS.config))
    variants, seeds = chosen_variants(), chosen_seeds()
    plan = [(variant, seed, os.path.join(runs_dir, "{}_seed{}".format(variant.name, seed)))
            for seed in seeds for variant in variants]
    for variant, seed, model_dir in plan:  # refused before anything runs
        check_command(model_dir, train_arguments(variant, seed, model_dir, arguments))
    runs = []
    for number, (variant, seed, model_dir) in enumerate(plan, start=1):
        began, done = time.time(), finished(model_dir)
        if not done:
            print("run {} of {}: {}, seed {} ...".format(number, len(plan), variant.name, seed), flush=True)
            train(model_dir, train_arguments(variant, seed, model_dir, arguments))
        runs.append(norm_comparison.read(variant, seed, model_dir))
        print("{}, seed {}: mIoU {} at step {}{}".format(
            variant.name, seed, "none" if runs[-1].miou is None else "{:.4f}".format(runs[-1].miou), runs[-1].step,
            ", finished before" if done else ", in {:.0f} s".format(time.time() - began)), flush=True)
    runs.sort(key=lambda run: variants.index(run.variant))
    check_steps(runs)
    rows = norm_comparison.summary(runs)
    config_name = os.path.splitext(os.path.basename(FLAGS.config))[0]
    paths = norm_comparison.write(rows, runs, config_name, runs_dir)
    norm_comparison.draw(rows, runs, figure)
    print("\n" + norm_comparison.markdown(rows, config_name, runs[0].step))
    print("written: {} and {}".format(", ".join(paths), figure))


def chosen_variants():
    known = {
        "sync": Variant("sync", FLAGS.num_towers, "sync"),
        "plain": Variant("plain", FLAGS.num_towers, "plain"),
        "one": Variant("one", 1, "sync"),
    }
    wrong = [name for name in FLAGS.variants if name not in known]
    if wrong or not FLAGS.variants:
        raise UsageError("--variants={}: choose among {}".format(",".join(FLAGS.variants), ", ".join(known)))
    return [known[name] for name in dict.fromkeys(FLAGS.variants)]


def chosen_seeds():
    try:
        seeds = [int(text) for text in FLAGS.seeds]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise UsageError("--seeds={}: whole numbers, 0 or more, are wanted, with commas between".format(",".join(FLAGS.seeds)))
    return list(dict.fromkeys(seeds))


def train_arguments(variant, seed, model_dir, more):
    """The arguments of train.py for one run, but for --max_steps, which may grow from one call to the next."""
    arguments = ["--config=" + os.path.abspath(FLAGS.config), "--model_dir=" + model_dir]
    arguments += ["--num_gpus={}".format(variant.towers), "--config.seed={}".format(seed)]
    arguments += ["--config.model.norm=" + variant.norm]
    if FLAGS.data_dir:
        arguments.append("--data_dir=" + os.path.abspath(FLAGS.data_dir))
    if FLAGS.device_type:
        arguments.append("--device_type=" + FLAGS.device_type)
    return arguments + list(more)


def check_command(model_dir, arguments):
    """ValueError where a run was started with other arguments; one that came to nothing has written no config.json."""
    path = os.path.join(model_dir, COMMAND)
    if not (os.path.exists(path) and os.path.exists(os.path.join(model_dir, "config.json"))):
        return
    with open(path) as file:
        before = json.load(file)
    if before != arguments:
        raise ValueError("{} was run with other arguments ({}): choose another --runs_dir".format(
            model_dir, " ".join(sorted(set(before) ^ set(arguments))) or "in another order"))


def finished(model_dir):
    """Whether a run was scored at its last step."""
    paths = [os.path.join(model_dir, name) for name in ("metrics.json", "config.json")]
    if not all(map(os.path.exists, paths)):
        return False
    contents = []
    for path in paths:
        with open(path) as file:
            contents.append(json.load(file))
    return contents[0]["step"] >= (FLAGS.max_steps or contents[1]["max_steps"])


def train(model_dir, arguments):
    """Runs train.py to its end; what it prints goes to model_dir/train.log. ValueError with its last words if it fails."""
    os.makedirs(model_dir, exist_ok=True)
    path = os.path.join(model_dir, COMMAND)
    with open(path + ".partial", "w") as file:
        json.dump(arguments, file, indent=1)
    os.replace(path + ".partial", path)
    if FLAGS.max_steps:
        arguments = arguments + ["--max_steps={}".format(FLAGS.max_steps)]
    log = os.path.join(model_dir, "train.log")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    with open(log, "a") as file:
        process = subprocess.Popen([sys.executable, os.path.join(ROOT, "scripts", "train.py")] + arguments,
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            code = process.wait()
        finally:
            if process.poll() is None:  # we are being stopped: let it save
                process.terminate()
                process.wait()
    if code or not finished(model_dir):
        with open(log) as file:
            last = ([line.strip() for line in file if line.strip()] or ["it printed nothing"])[-1]
        raise ValueError("train.py did not finish in {} (exit code {}): {}".format(model_dir, code, last))


def check_steps(runs):
    """ValueError unless all runs were scored at one step."""
    steps = {run.step for run in runs}
    if len(steps) > 1:
        raise ValueError("the runs were scored at different steps ({}): give --max_steps={}, or another --runs_dir".format(
            ", ".join(map(str, sorted(steps))), max(steps)))


if __name__ == "__main__":
    commandline.run(main, positional=True)
