"""Weights as every code base would write them: real names and layouts, seeded values, and what each is here.

Built layer by layer from the architecture, not by rules on names, so that it can stand against models/pretrained.
"""

import zlib

import numpy as np

UNITS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
STEM = {"slim": "7x7", "slim_beta": "deep", "torchvision": "7x7", "semseg_init": "deep", "semseg": "deep",
        "tensorpack": "7x7"}
FORMATS = sorted(STEM)
BINS = (1, 2, 3, 6)
_POOL = np.tile(np.random.RandomState(0).standard_normal(999983).astype(np.float32), 6)  # a prime: no axis repeats

# Under each format: the suffixes of a kernel, gamma, beta, moving mean and moving variance.
_SLIM_ENDS = ("/weights", "/BatchNorm/gamma", "/BatchNorm/beta", "/BatchNorm/moving_mean", "/BatchNorm/moving_variance")
_TORCH_ENDS = (".weight", ".weight", ".bias", ".running_mean", ".running_var")
_TENSORPACK_ENDS = ("/W", "/bn/gamma", "/bn/beta", "/bn/mean/EMA", "/bn/variance/EMA")


def layers(units, stem, width=64):
    """(our convolution, our norm, kernel shape, names): names has a format's name of convolution and norm."""
    found = []
    if stem == "deep":
        shapes = [(3, 3, 3, width), (3, 3, width, width), (3, 3, width, 2 * width)]
        channels = 2 * width
    else:
        shapes, channels = [(7, 7, 3, width)], width
    for k, shape in enumerate(shapes):
        found.append(("resnet/stem/conv%d" % (k + 1), "resnet/stem/bn%d" % (k + 1), shape, {
            "slim": ("N/conv1",) * 2, "slim_beta": ("N/conv1_%d" % (k + 1),) * 2,
            "torchvision": ("conv1", "bn1"), "semseg_init": ("conv%d" % (k + 1), "bn%d" % (k + 1)),
            "semseg": ("module.layer0.%d" % (3 * k), "module.layer0.%d" % (3 * k + 1)), "tensorpack": ("conv0",) * 2}))
    for stage, count in enumerate(units):
        inner = width * 2 ** stage
        for unit in range(count):
            ours = "resnet/stage%d/unit%d/" % (stage + 1, unit + 1)
            slim = "N/block%d/unit_%d/bottleneck_v1/" % (stage + 1, unit + 1)
            torch, pack = "layer%d.%d." % (stage + 1, unit), "group%d/block%d/" % (stage, unit)
            shapes = [(1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, 4 * inner)]
            plan = [("conv%d" % k, "bn%d" % k, "conv%d" % k, "conv%d" % k, "bn%d" % k, "conv%d" % k) for k in (1, 2, 3)]
            if unit == 0:
                shapes.append((1, 1, channels, 4 * inner))
                plan.append(("shortcut", "shortcut_bn", "shortcut", "downsample.0", "downsample.1", "convshortcut"))
            for shape, (conv, norm, in_slim, in_torch, norm_in_torch, in_pack) in zip(shapes, plan):
                found.append((ours + conv, ours + norm, shape, {
                    "slim": (slim + in_slim,) * 2, "slim_beta": (slim + in_slim,) * 2,
                    "torchvision": (torch + in_torch, torch + norm_in_torch),
                    "semseg_init": (torch + in_torch, torch + norm_in_torch),
                    "semseg": ("module." + torch + in_torch, "module." + torch + norm_in_torch),
                    "tensorpack": (pack + in_pack,) * 2}))
            channels = 4 * inner
    return found


def head_layers(channels, pyramid=512, head=512, aux=256):
    found = []
    for k, b in enumerate(BINS):
        scope = "pspnet/pyramid/bin%d/" % b
        found.append((scope + "conv", scope + "bn", (1, 1, channels, pyramid), {
            "semseg": ("module.ppm.features.%d.1" % k, "module.ppm.features.%d.2" % k)}))
    for ours, theirs, inputs, outputs in (("head", "cls", channels + 4 * pyramid, head), ("aux", "aux", channels // 2, aux)):
        found.append(("pspnet/%s/conv" % ours, "pspnet/%s/bn" % ours, (3, 3, inputs, outputs), {
            "semseg": ("module.%s.0" % theirs, "module.%s.1" % theirs)}))
    return found


def draw(name, shape):
    """Values that differ between names and along every axis, for nothing."""
    size, start = int(np.prod(shape)), zlib.crc32(name.encode()) % 999983
    values = _POOL[start:start + size] if start + size <= _POOL.size else np.resize(_POOL[start:], size)
    values = values.reshape(shape)
    return np.abs(values) + .5 if name.endswith("moving_variance") else values


def shapes(units, stem, width=64, classes=19, **channels):
    """Name to shape of every variable of our network."""
    found = {}
    every = layers(units, stem, width) + head_layers(32 * width, **channels)
    for conv, norm, shape, _ in every:
        found[conv + "/kernel"] = list(shape)
        for kind in ("gamma", "beta", "moving_mean", "moving_variance"):
            found[norm + "/" + kind] = [shape[3]]
    for scope, size in (("head", channels.get("head", 512)), ("aux", channels.get("aux", 256))):
        found["pspnet/%s/logits/kernel" % scope] = [1, 1, size, classes]
        found["pspnet/%s/logits/bias" % scope] = [classes]
    return found


def weights(form, units, scope="resnet_v1_101", width=64, classes=19, values=draw, **channels):
    """(arrays by their names as the format stores them, what every array is here).

    Kernels are laid out as the format has them, and there is what else such files hold: counters, classifiers, slots.
    """
    theirs, ours = {}, {}
    every = layers(units, STEM[form], width) + (head_layers(32 * width, **channels) if form == "semseg" else [])
    ends = {"slim": _SLIM_ENDS, "slim_beta": _SLIM_ENDS, "tensorpack": _TENSORPACK_ENDS}.get(form, _TORCH_ENDS)
    for conv, norm, shape, names in every:
        in_file = [name.replace("N/", scope + "/", 1) for name in names[form]]
        kernel = values(conv + "/kernel", shape)
        ours[conv + "/kernel"] = kernel
        theirs[in_file[0] + ends[0]] = stored(form, kernel, first=conv == "resnet/stem/conv1")
        for kind, end in zip(("gamma", "beta", "moving_mean", "moving_variance"), ends[1:]):
            theirs[in_file[1] + end] = ours[norm + "/" + kind] = values(norm + "/" + kind, shape[3:])
        if ends is _TORCH_ENDS:
            theirs[in_file[1] + ".num_batches_tracked"] = np.array(5)
    if form == "semseg":
        for scope, name, size in (("head", "cls", channels.get("head", 512)), ("aux", "aux", channels.get("aux", 256))):
            ours["pspnet/%s/logits/kernel" % scope] = kernel = values(scope + " logits", (1, 1, size, classes))
            ours["pspnet/%s/logits/bias" % scope] = values(scope + " bias", (classes,))
            theirs["module.%s.4.weight" % name] = stored(form, kernel)
            theirs["module.%s.4.bias" % name] = ours["pspnet/%s/logits/bias" % scope]
    theirs.update({
        "slim": {scope + "/logits/weights": np.zeros([1, 1, 4, 10], np.float32), scope + "/logits/biases": np.zeros(10, "f"),
                 scope + "/mean_rgb": np.zeros(3, np.float32), "global_step": np.array(9),
                 scope + "/conv1/weights/Momentum": np.zeros(4, np.float32)},
        "slim_beta": {"global_step": np.array(9)},
        "torchvision": {"fc.weight": np.zeros([10, 4], np.float32), "fc.bias": np.zeros(10, np.float32)},
        "semseg_init": {"fc.weight": np.zeros([10, 4], np.float32), "fc.bias": np.zeros(10, np.float32)},
        "semseg": {},
        "tensorpack": {"linear/W": np.zeros([4, 10], np.float32), "linear/b": np.zeros(10, np.float32),
                       "global_step": np.array(9), "learning_rate": np.array(.1, np.float32)},
    }[form])
    return theirs, ours


def stored(form, kernel, first=False):
    """A kernel [h, w, in, out] of R, G, B as the format stores it."""
    if form == "tensorpack" and first:
        kernel = np.flip(kernel, axis=2)
    return kernel if form in ("slim", "slim_beta", "tensorpack") else np.einsum("hwio->oihw", kernel)


def write(path, form, backbone="resnet50"):
    """A file of a whole network's weights; returns its path. What it is, its bytes say: .npz."""
    with open(str(path), "wb") as file:
        np.savez(file, **weights(form, UNITS[backbone])[0])
    return str(path)
