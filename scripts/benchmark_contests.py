"""What the benchmark compares with what: contests of the suites `quick` and `full`, and what their rows are to reach.

A contest is a few contestants that run in turn; its rows are ratios of what they showed.
"""

import collections
import statistics

SUITES = ("quick", "full")
SKETCH_OPS = 5800  # ops a tower of PSPNet-50 with gradients, in the first sketch of this project

Contest = collections.namedtuple("Contest", "name about commands rows")
Contest.__doc__ = """name, a sentence about it, commands (a dict from contestant to its command), and a list of `Row`."""


Row = collections.namedtuple("Row", "what compare goal contestants value cpu_value")
Row.__new__.__defaults__ = (None,)
Row.__doc__ = """A ratio and what it is to reach: text, '<=' or '>=', number.

`value` takes a turn that has all `contestants`; `cpu_value`, or None, gives the same in CPU time."""


def step(result):
    return statistics.median(result["step_seconds"])


def cpu_step(result):
    return statistics.median(result["step_cpu_seconds"])


def memory(result):
    return result["peak_bytes"]


def live(result):
    """Bytes of the tensors of a step."""
    return result["live_bytes"]


def rate(result, seconds=step):
    """Floating-point operations a second."""
    return result["step_flops"] / seconds(result)


def images(result, seconds=step):
    """Images a second."""
    return result["images"] / seconds(result)


def building_seconds(result):
    """Seconds a tower."""
    return result["tower_seconds"]


def over(what, compare, goal, a, b, measure):
    """The row of measure(a) / measure(b)."""
    def of(measured):
        return measured and (lambda turn: measured(turn[a]) / measured(turn[b]))

    in_cpu_time = {step: cpu_step, building_seconds: lambda r: cpu_step(r) / r["towers"], rate: lambda r: rate(r, cpu_step),
                   images: lambda r: images(r, cpu_step)}
    return Row(what, compare, goal, (a, b), of(measure), of(in_cpu_time.get(measure)))


def contests(suite, steps, python, torch_python):
    """The list of `Contest` of a suite.

    Args:
        suite: 'quick', for small networks and crops, or 'full'.
        steps: how many timed steps a process takes, or None for as many as suit each contest.
        python: the interpreter of contestants in TensorFlow; torch_python: of those in PyTorch.
    """
    return (_Full if suite == "full" else _Quick)(steps, python, torch_python).contests()


class _Quick:
    """The same contests as `_Full` on networks and crops that take seconds."""

    suite = "quick"
    prices = (("resnet", "small_resnet", 129, 2, 8),
              ("pspnet", "thin_pspnet", 121, 2, 8), ("pspnet", "thin_pspnet", 121, 4, 8))
    keras = ("small_resnet", 129, 8)
    hand_split = ("thin_pspnet", 121, 8)
    recompute = ("thin_pspnet", 121, 8)
    torch_crops = (65,)
    scaling = ("small_resnet", 129, 8)
    building, building_towers, building_ops = "thin_pspnet", (1, 2, 4), "pspnet50"
    rate = ("pspnet50", 65, 1024)
    pipeline_images = 6
    windows = ("thin_pspnet", 129, (256, 512))
    steps = dict(step=5, heavy=2, windows=3)

    def __init__(self, steps, python, torch_python):
        self._steps, self._python, self._torch_python = steps, python, torch_python

    def contests(self):
        result = []
        for kind, network, crop, towers, batch in self.prices:
            result.append(self._price(kind, network, crop, towers, batch))
        result += [self._keras(*self.keras), self._hand_split(*self.hand_split), self._recompute(*self.recompute)]
        result += [self._torch(crop) for crop in self.torch_crops]
        result += [self._scaling(*self.scaling), self._building(), self._rate(*self.rate), self._pipeline(),
                   self._windows(*self.windows)]
        return result

    def _module(self, module, kind=None, python=None, **flags):
        """A command; `kind` says how many steps."""
        if kind:
            flags["steps"] = self._steps or self.steps[kind]
        return [python or self._python, "-m", "scripts.contestants." + module] + [
            "--{}={}".format(name, value) for name, value in flags.items()]

    def _training(self, network, crop, towers, batch, norm, **flags):
        kind = "step" if network not in ("pspnet50", "pspnet101") else "heavy"
        return self._module("training_step", kind, network=network, norm=norm, towers=towers, batch=batch, crop=crop, **flags)

    def _price(self, kind, network, crop, towers, batch):
        commands = {norm: self._training(network, crop, towers, batch, norm) + ["--live"] for norm in ("sync", "plain")}
        case = "{}, {} towers x {} of {}x{}".format(network, towers, batch // towers, crop, crop)
        about = "Synchronised against plain fused batch norm: {}.".format(case)
        return Contest("price_{}_{}".format(kind, towers), about, commands, [
            over("step of sync BN / plain BN; " + case, "<=", 1.02, "sync", "plain", step),
            over("peak memory of sync BN / plain BN; " + case, "<=", 0.95, "sync", "plain", memory),
            over("tensors at once, sync BN / plain BN; " + case, "<=", 0.95, "sync", "plain", live)])

    def _keras(self, network, crop, batch):
        commands = {
            "keras": self._module("keras_step", "step", network=network, towers=2, batch=batch, crop=crop),
            "ours": self._training(network, crop, 2, batch, "sync")}
        case = "{}, 2 x {} of {}x{}".format(network, batch // 2, crop, crop)
        about = "Keras's SyncBatchNormalization under MirroredStrategy (tf_keras) against sync BN: {}.".format(case)
        return Contest("keras", about, commands, [
            over("step of Keras SyncBatchNormalization / ours; " + case, ">=", 2.0, "keras", "ours", step)])

    def _hand_split(self, network, crop, batch):
        commands = {norm: self._training(network, crop, 2, batch, norm) + ["--live"] for norm in ("hand_split", "sync")}
        case = "{}, 2 towers x {} of {}x{}".format(network, batch // 2, crop, crop)
        about = "Activations concatenated on the CPU at every norm layer, and split again, against sync BN: {}.".format(case)
        return Contest("hand_split", about, commands, [
            over("step of the hand-split way / ours; " + case, ">=", 1.1, "hand_split", "sync", step),
            over("peak memory of the hand-split way / ours; " + case, ">=", 1.2, "hand_split", "sync", memory),
            over("tensors at once, the hand-split way / ours; " + case, ">=", 1.2, "hand_split", "sync", live)])

    def _recompute(self, network, crop, batch):
        plain = self._training(network, crop, 2, batch, "sync") + ["--live"]
        case = "{}, 2 towers x {} of {}x{}".format(network, batch // 2, crop, crop)
        about = "Cheap activations computed again in the backward pass, against kept: {}.".format(case)
        return Contest("recompute", about, {"recompute": plain + ["--recompute"], "kept": plain}, [
            over("step with recomputation / without; " + case, "<=", 1.1, "recompute", "kept", step),
            over("peak memory with recomputation / without; " + case, "<=", 0.7, "recompute", "kept", memory),
            over("tensors at once, with recomputation / without; " + case, "<=", 0.7, "recompute", "kept", live)])

    def _torch(self, crop):
        def torch(**flags):
            return self._module("torch_step", "heavy", self._torch_python, crop=crop, batch=2, **flags)

        ours = self._training("pspnet50", crop, 2, 2, "sync")
        commands = {"ours": ours, "recompute": ours + ["--recompute"], "torch": torch(),
                    "torch_channels_last": torch(memory_format="channels_last")}
        case = "pspnet50, 2 of {}x{}".format(crop, crop)
        about = ("Sync BN on two towers against PyTorch on the CPU with plain BN over the whole batch, in its own layout and "
                 "with the channels last; ours keeping activations, and computing cheap ones again: {}.".format(case))
        return Contest("torch_{}".format(crop), about, commands, [
            over("{} of ours{} / PyTorch{}; {}".format(text, how, note, case), "<=", 1.0, way, other, measure)
            for other, note in (("torch", ""), ("torch_channels_last", " (channels last)"))
            for way, how in (("ours", ""), ("recompute", " with recomputation"))
            for text, measure in (("step", step), ("peak memory", memory))])

    def _scaling(self, network, crop, batch):
        commands = {"towers_{}".format(n): self._training(network, crop, n, batch, "sync") for n in (1, 2, 4, 8)}
        case = "{}, {} of {}x{} in all".format(network, batch, crop, crop)

        def per_further_tower(turn):
            ops = {n: turn["towers_{}".format(n)]["backward_ops"] for n in (1, 2, 8)}
            return (ops[8] - ops[1]) / 7 / (ops[2] - ops[1])

        rows = [over("step of {} towers / one; {}".format(n, case), "<=", 1.1, "towers_{}".format(n), "towers_1", step)
                for n in (2, 4, 8)]
        rows.append(Row("backward ops of each further tower, 2nd to 8th / 2nd; " + network, "<=", 1.0,
                        ("towers_1", "towers_2", "towers_8"), per_further_tower))
        return Contest("scaling", "One batch over 1, 2, 4 and 8 towers: {}.".format(case), commands, rows)

    def _building(self):
        network, most = self.building, max(self.building_towers)
        commands = {"towers_{}".format(n): self._module("graph_building", network=network, towers=n)
                    for n in self.building_towers}
        for name, count in (("ops", 2), ("ops_3", 3)):
            commands[name] = self._module("graph_building", network=self.building_ops, towers=count)
        a, b = "towers_{}".format(most), "towers_2"
        rows = [over("building: {} a tower, {} towers / 2; {}".format(text, most, network), "<=", 1.0, a, b, measure)
                for text, measure in (("seconds", building_seconds), ("ops", lambda result: result["tower_ops"]))]
        rows.append(Row("ops a tower, 2 towers / those of the first sketch ({}); {}".format(SKETCH_OPS, self.building_ops),
                        "<=", 0.5, ("ops",), lambda turn: turn["ops"]["tower_ops"] / SKETCH_OPS))
        rows.append(Row("ops of the third tower / those a tower of the first sketch; " + self.building_ops, "<=", 0.5,
                        ("ops", "ops_3"), lambda turn: (turn["ops_3"]["ops"] - turn["ops"]["ops"]) / SKETCH_OPS))
        about = ("Building the graph of a training step, gradients and update included; seconds and memory are those of "
                 "building, and ops all that the graph holds.")
        return Contest("building", about, commands, rows)

    def _rate(self, network, crop, size):
        commands = {"step": self._training(network, crop, 1, 2, "sync") + ["--profile"],
                    "product": self._module("matrix_product", size=size)}
        case = "{}, 2 of {}x{}".format(network, crop, crop)
        about = ("Floating-point operations a second of a training step (2 for each MAC that scripts/layer_costs.py counts, "
                 "backward pass and auxiliary head included) against a matrix product: {}.".format(case))
        what = "floating-point rate of a step / of a {0}x{0}x{0} product; {1}".format(size, case)
        return Contest("rate", about, commands, [over(what, ">=", 0.75, "step", "product", rate)])

    def _pipeline(self):
        flags = dict(images=self.pipeline_images, data_dir="runs/benchmark/photographs")
        commands = {way: self._module("input_pipeline", way=way, **flags) for way in ("ours", "opencv")}
        about = "From 2048x1024 PNGs to augmented 713x713 crops, two worker threads; the same images and drawn numbers."
        return Contest("pipeline", about, commands, [
            over("input pipeline: images/s of ours / OpenCV; 2048x1024 to 713x713", ">=", 2.0, "ours", "opencv", images)])

    def _windows(self, network, crop, size):
        flags = dict(network=network, crop=crop, height=size[0], width=size[1])
        commands = {way: self._module("sliding_windows", "windows", way=way, **flags) for way in ("ours", "naive")}
        case = "{}, {}x{} in windows of {}".format(network, size[1], size[0], crop)
        about = ("Evaluation of one image at one scale, with flip, against a loop with a session run for each window and "
                 "another for its mirror image: {}.".format(case))
        return Contest("windows", about, commands, [
            over("sliding windows: images/s of ours / naive loop; " + case, ">=", 1.5, "ours", "naive", images)])


class _Full(_Quick):
    """The sizes that claims are made for."""

    suite = "full"
    prices = (("resnet", "resnet50", 225, 2, 4), ("resnet", "resnet50", 225, 4, 4),
              ("pspnet", "pspnet50", 473, 2, 2), ("pspnet", "pspnet50", 473, 4, 4))
    keras = ("resnet50", 225, 4)
    hand_split = ("pspnet50", 473, 2)
    recompute = ("pspnet50", 473, 2)
    torch_crops = (473, 713)
    scaling = ("resnet50", 225, 8)
    building, building_towers, building_ops = "pspnet101", (1, 2, 4, 8, 16), "pspnet50"
    rate = ("pspnet50", 473, 3072)
    pipeline_images = 24
    windows = ("pspnet50", 713, (1024, 2048))
    steps = dict(step=3, heavy=2, windows=1)
