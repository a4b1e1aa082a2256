"""What other code bases call the weights of a ResNet or a PSPNet, and what they feed the network.

A format's network was trained on (rgb − mean) / std with its own numbers, rgb from 0 to 255:

    format        stem  layout, channels  mean                  std            whose
    slim          7x7   HWIO RGB          123.68 116.78 103.94  1              slim resnet_v1_50, _101
    slim_beta     deep  HWIO RGB          127.5                 127.5          DeepLab's resnet_v1_50_beta, _101_beta
    torchvision   7x7   OIHW RGB          ImageNet's            ImageNet's     torchvision resnet50, resnet101; timm
    semseg_init   deep  OIHW RGB          ImageNet's            ImageNet's     semseg's initmodel/resnet50_v2, 101_v2
    semseg        deep  OIHW RGB          ImageNet's            ImageNet's     semseg's trained PSPNet, head and all
    tensorpack    7x7   HWIO BGR          ImageNet's            ImageNet's     tensorpack ImageNet-ResNet
    towers        any   HWIO RGB          as it was imported for, else ours    a checkpoint of this project's own

ImageNet's mean is (.485 .456 .406)·255, its std (.229 .224 .225)·255. slim_beta's is written x·2/255 − 1 there.

Where the networks themselves differ from ours, at the same weights:
* slim and slim_beta put the stride of stage 2 into the *last* unit of stage 1. The weights fit; stage 1 is the same but
  taken at every second pixel, and the 3x3 of stage 2's first unit was trained to see pixels twice as far apart. At the
  stride that ours has, the features are close to, but not, theirs; training takes that up. With `output_stride=8` their
  dilations are ours, 2 and 4 in whole stages.
* slim's `conv2d_same` pads symmetrically, as ours does; its max pool and tensorpack's strided convolutions pad with SAME,
  which is symmetric at the 8n+1 sizes that the recipes use.
* tensorpack's networks converted from Caffe have the same names as its own, but the stride on the first 1x1, and were fed
  0 to 255 less a mean image: of these, import only its own.
All have batch norm with epsilon 1e-5.

`towers` is for starting from a run of one's own whose network differs in part: other classes, no auxiliary head.
"""

import collections
import re

IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)

Format = collections.namedtuple("Format", "name stem layout channels mean std whole variable skipped")
Format.__doc__ = """One code base's weights.

name, stem ('7x7', 'deep', or None for any), layout of kernels ('HWIO' or 'OIHW'), channels ('RGB' or 'BGR'), mean and
std (of R, G, B; None for those of the network that takes the weights);
whole: with the pyramid and heads, not the backbone alone;
variable(name, bins): our variable that a name of theirs is, or None; bins are the pyramid's, in order;
skipped(name): why a name of theirs has no place here by rule, or None.
"""

_SLOTS = r"/(Momentum|RMSProp(_1)?|Adam(_1)?|Adagrad|ExponentialMovingAverage|AccumGrad(_\d+)?)$"
_TENSORFLOW_SKIPS = (
    (r"(^|/)global_step$", "step counter"),
    (r"(^|/)(learning_rate|beta[12]_power|save_counter|_CHECKPOINTABLE_OBJECT_GRAPH)$", "training state"),
    (_SLOTS, "optimizer or averaging slot"),
    (r"^EMA/", "summary average"),
)
_SLIM_SKIPS = _TENSORFLOW_SKIPS + (
    (r"(^|/)logits/(weights|biases)$", "classifier"),
    (r"(^|/)mean_rgb$", "input mean"),
)
_TENSORPACK_SKIPS = _TENSORFLOW_SKIPS + ((r"^linear/(W|b)$", "classifier"),)
_TORCH_SKIPS = (
    (r"(^|\.)num_batches_tracked$", "batch counter"),
    (r"^(module\.)?fc\.(weight|bias)$", "classifier"),
)

_TOWERS_SKIPS = (
    (r"^(resnet|pspnet)/.*/(kernel|bias|gamma|beta)/[^/]+$", "optimizer or averaging slot"),
    (r"^imported/input_(mean|std)$", "input that it was imported for"),
    (r"^(?!resnet/|pspnet/)", "training state"),
)

_TENSORPACK_NORM = {"gamma": "gamma", "beta": "beta", "mean/EMA": "moving_mean", "variance/EMA": "moving_variance"}
_TORCH_NORM = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def _norm_of(conv):
    return "shortcut_bn" if conv == "shortcut" else conv.replace("conv", "bn")


def _slim(stem):
    """Names under any scopes, `resnet_v1_101/` as a rule; `stem` matches the stem's convolutions."""
    layer = r"^(?:[^/]+/)+?(?:{}|block([1-4])/unit_(\d+)/bottleneck_v1/(shortcut|conv[123]))/".format(stem)
    pattern = re.compile(layer + r"(?:weights|BatchNorm/(gamma|beta|moving_mean|moving_variance))$")

    def variable(name, bins):
        found = pattern.match(name)
        if not found:
            return None
        number, block, unit, conv, statistic = found.groups()
        scope = "resnet/stem/" if block is None else "resnet/stage{}/unit{}/".format(block, int(unit))
        conv = conv or "conv" + number
        return scope + (_norm_of(conv) + "/" + statistic if statistic else conv + "/kernel")

    return variable


def _towers(name, bins):
    return name if re.match(r"^(resnet|pspnet)/.*/(kernel|bias|gamma|beta|moving_mean|moving_variance)$", name) else None


def _tensorpack(name, bins):
    found = re.match(r"^(?:(conv0)|group([0-3])/block(\d+)/(convshortcut|conv[123]))/(W|bn/(.*))$", name)
    if not found:
        return None
    stem, group, block, conv, _, statistic = found.groups()
    if statistic is not None and statistic not in _TENSORPACK_NORM:
        return None
    if stem:
        scope, conv = "resnet/stem/", "conv1"
    else:
        scope, conv = "resnet/stage{}/unit{}/".format(int(group) + 1, int(block) + 1), conv.replace("convshort", "short")
    return scope + (_norm_of(conv) + "/" + _TENSORPACK_NORM[statistic] if statistic else conv + "/kernel")


def _torch(stem_layer, whole=False):
    """PyTorch names; `stem_layer(module)` gives ('conv' or 'bn', 1 to 3) for a module of the stem, or None."""

    def layer(module, bins):
        """Our scope of a module, 'conv' or 'bn' last; None if it is none."""
        found = stem_layer(module)
        if found:
            return "resnet/stem/{}{}".format(*found)
        found = re.match(r"^layer([1-4])\.(\d+)\.(?:((?:conv|bn)[123])|downsample\.([01]))$", module)
        if found:
            stage, unit, own, shortcut = found.groups()
            return "resnet/stage{}/unit{}/{}".format(
                stage, int(unit) + 1, own or ("shortcut", "shortcut_bn")[int(shortcut)])
        found = re.match(r"^ppm\.features\.(\d+)\.([12])$", module) if whole else None
        if found and int(found.group(1)) < len(bins):
            return "pspnet/pyramid/bin{}/{}".format(bins[int(found.group(1))], {"1": "conv", "2": "bn"}[found.group(2)])
        found = re.match(r"^(cls|aux)\.([014])$", module) if whole else None
        if found:
            return "pspnet/{}/{}".format({"cls": "head", "aux": "aux"}[found.group(1)],
                                         {"0": "conv", "1": "bn", "4": "logits"}[found.group(2)])
        return None

    def variable(name, bins):
        module, _, kind = re.sub(r"^module\.", "", name).rpartition(".")
        scope = layer(module, bins)
        if scope is None:
            return None
        last = scope.split("/")[-1]
        if last == "shortcut_bn" or last.startswith("bn"):
            return scope + "/" + _TORCH_NORM[kind] if kind in _TORCH_NORM else None
        if kind == "weight":
            return scope + "/kernel"
        return scope + "/bias" if last == "logits" and kind == "bias" else None

    return variable


def _torchvision_stem(module):
    found = re.match(r"^(conv|bn)1$", module)
    return (found.group(1), 1) if found else None


def _semseg_init_stem(module):
    found = re.match(r"^(conv|bn)([123])$", module)
    return (found.group(1), int(found.group(2))) if found else None


def _semseg_stem(module):
    found = re.match(r"^layer0\.([013467])$", module)  # 2, 5 and 8 are ReLUs, 9 is the pool
    return (("conv", "bn")[int(found.group(1)) % 3], int(found.group(1)) // 3 + 1) if found else None


def _skips(rules):
    def skipped(name):
        return next((reason for pattern, reason in rules if re.search(pattern, name)), None)

    return skipped


def _format(name, stem, layout, channels, mean, std, variable, skips, whole=False):
    return Format(name, stem, layout, channels, mean, std, whole, variable, _skips(skips))


FORMATS = {entry.name: entry for entry in (
    _format("slim", "7x7", "HWIO", "RGB", (123.68, 116.78, 103.94), (1., 1., 1.), _slim(r"conv(1)"), _SLIM_SKIPS),
    _format("slim_beta", "deep", "HWIO", "RGB", (127.5,) * 3, (127.5,) * 3, _slim(r"conv1_([123])"), _SLIM_SKIPS),
    _format("torchvision", "7x7", "OIHW", "RGB", IMAGENET_MEAN, IMAGENET_STD, _torch(_torchvision_stem), _TORCH_SKIPS),
    _format("semseg_init", "deep", "OIHW", "RGB", IMAGENET_MEAN, IMAGENET_STD, _torch(_semseg_init_stem), _TORCH_SKIPS),
    _format("semseg", "deep", "OIHW", "RGB", IMAGENET_MEAN, IMAGENET_STD, _torch(_semseg_stem, whole=True), _TORCH_SKIPS,
            whole=True),
    _format("tensorpack", "7x7", "HWIO", "BGR", IMAGENET_MEAN, IMAGENET_STD, _tensorpack, _TENSORPACK_SKIPS),
    _format("towers", None, "HWIO", "RGB", None, None, _towers, _TOWERS_SKIPS, whole=True),
)}
