"""Writes the golden files of this folder with PyTorch and torchvision, which share no code with this project.

    pip install torch==2.13.0 torchvision==0.28.0 && python tests/models/golden/make_golden.py

pspnet.npz: a small PSPNet (bottlenecks 2, 1, 1, 2, width 2, 3 classes) in float64: both stems, feature maps of 6x6 and
8x7 in inference, and one of each in training, with its batch's statistics. Of every convolution before a batch norm and
of every batch norm, of logits and, in training, auxiliary logits, gradients and running averages: a sample, and signed
sums over all.
torchvision.npz: torchvision's own ResNet, its 3x3 convolutions in layers 3 and 4 dilated by 2 and 4, after each layer.
"""

import os

import numpy as np
import seeded
import torch
import torchvision
from torch import nn

FOLDER = os.path.dirname(os.path.abspath(__file__))
MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
BINS, CLASSES = (1, 2, 3, 6), 3


def conv_norm(inputs, outputs, size, stride=1, dilation=1):
    pad = size // 2 * dilation
    return [nn.Conv2d(inputs, outputs, size, stride, pad, dilation, bias=False), nn.BatchNorm2d(outputs)]


class Unit(nn.Module):
    def __init__(self, inputs, width, stride, dilation):
        super().__init__()
        self.conv1, self.bn1 = conv_norm(inputs, width, 1)
        self.conv2, self.bn2 = conv_norm(width, width, 3, stride, dilation)
        self.conv3, self.bn3 = conv_norm(width, 4 * width, 1)
        self.downsample = None
        if stride > 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(*conv_norm(inputs, 4 * width, 1, stride))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Pyramid(nn.Module):
    def __init__(self, inputs, channels):
        super().__init__()
        self.features = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(b), *conv_norm(inputs, channels, 1), nn.ReLU()) for b in BINS)

    def forward(self, x):
        return torch.cat([x] + [resized(branch(x), x.shape[2:]) for branch in self.features], 1)


class Network(nn.Module):
    """Names of parameters as in semseg's trained models; the 7x7 stem is theirs cut after its first layers."""

    def __init__(self, stem, units=(2, 1, 1, 2), width=2):
        super().__init__()
        pool = nn.MaxPool2d(3, 2, 1)
        if stem == "deep":
            self.layer0 = nn.Sequential(*conv_norm(3, width, 3, 2), nn.ReLU(), *conv_norm(width, width, 3), nn.ReLU(),
                                        *conv_norm(width, 2 * width, 3), nn.ReLU(), pool)
            channels = 2 * width
        else:
            self.layer0 = nn.Sequential(*conv_norm(3, width, 7, 2), nn.ReLU(), pool)
            channels = width
        for number, (count, stride, dilation) in enumerate(zip(units, (1, 2, 1, 1), (1, 1, 2, 4)), start=1):
            stage = []
            for k in range(count):
                stage.append(Unit(channels, width, stride if k == 0 else 1, dilation))
                channels = 4 * width
            setattr(self, "layer{}".format(number), nn.Sequential(*stage))
            width *= 2
        self.ppm = Pyramid(channels, 4)
        self.cls = nn.Sequential(*conv_norm(channels + 16, 6, 3), nn.ReLU(), nn.Identity(), nn.Conv2d(6, CLASSES, 1))
        self.aux = nn.Sequential(*conv_norm(channels // 2, 3, 3), nn.ReLU(), nn.Identity(), nn.Conv2d(3, CLASSES, 1))

    def forward(self, x):
        third = self.layer3(self.layer2(self.layer1(self.layer0(x))))
        main = self.cls(self.ppm(self.layer4(third)))
        return resized(main, x.shape[2:]), resized(self.aux(third), x.shape[2:])


def resized(x, size):
    return nn.functional.interpolate(x, tuple(size), mode="bilinear", align_corners=True)


def fill(network):
    state = network.double().state_dict()
    for name, value in state.items():
        if value.is_floating_point():
            value.copy_(torch.from_numpy(seeded.weight(name, tuple(value.shape))))


def channels_last(tensor):
    return tensor.detach().numpy().transpose(0, 2, 3, 1)


def images(size, count):
    return torch.from_numpy(((seeded.rgb(size, count) - MEAN) / STD).transpose(0, 3, 1, 2).copy())


class Golden:
    def __init__(self):
        self.names, self.samples, self.sums = [], [], []

    def add(self, name, values):
        sample, sums = seeded.digest(name, values)
        self.names.append(name)
        self.samples.append(sample)
        self.sums.append(sums)

    def arrays(self, prefix):
        return {prefix + "/names": np.array(self.names), prefix + "/samples": np.array(self.samples),
                prefix + "/sums": np.array(self.sums)}


def pspnet_case(stem, size, training):
    network, golden = Network(stem), Golden()
    fill(network)
    network.train(training)

    def keep(name):
        def hook(module, inputs, output):
            golden.add(name + " in", channels_last(inputs[0]))
            golden.add(name + " out", channels_last(output))

        return hook

    for name, module in network.named_modules():
        if isinstance(module, nn.BatchNorm2d) and (training or not name.startswith("aux")):
            module.register_forward_hook(keep(name))
    logits, aux_logits = network(images(size, 2))
    golden.add("logits", channels_last(logits))
    if training:
        golden.add("aux_logits", channels_last(aux_logits))
        loss = sum((out.permute(0, 2, 3, 1) * torch.from_numpy(seeded.signs(name, channels_last(out).shape))).sum()
                   for name, out in (("logits loss", logits), ("aux_logits loss", aux_logits)))
        loss.backward()
        for name, parameter in network.named_parameters():
            gradient = parameter.grad.numpy()
            golden.add("gradient " + name, gradient.transpose(2, 3, 1, 0) if gradient.ndim == 4 else gradient)
        for name, value in network.state_dict().items():
            if "running" in name:
                golden.add("after " + name, value.numpy())
    return golden.arrays("{} {}x{} {}".format(stem, *size, "training" if training else "inference"))


def torchvision_resnet():
    network = torchvision.models.resnet.ResNet(torchvision.models.resnet.Bottleneck, [2, 1, 1, 1])
    for layer, dilation in ((network.layer3, 2), (network.layer4, 4)):
        for name, module in layer.named_modules():
            if name.endswith("conv2"):
                module.stride, module.dilation, module.padding = (1, 1), (dilation, dilation), (dilation, dilation)
            if name.endswith("downsample.0"):
                module.stride = (1, 1)
    fill(network)
    network.eval()
    golden = Golden()
    x = network.maxpool(network.relu(network.bn1(network.conv1(images((41, 49), 1)))))
    for number in (1, 2, 3, 4):
        x = getattr(network, "layer{}".format(number))(x)
        golden.add("stage{}".format(number), channels_last(x))
    return golden.arrays("torchvision")


def save(name, arrays):
    np.savez_compressed(os.path.join(FOLDER, name), **arrays)
    print(name, os.path.getsize(os.path.join(FOLDER, name)), "bytes")


if __name__ == "__main__":
    torch.set_num_threads(2)
    cases = {}
    for stem in ("deep", "7x7"):
        for size in ((41, 41), (57, 49)):  # features of 6x6, and of 8x7, where the windows of bins 3 and 6 overlap
            cases.update(pspnet_case(stem, size, training=False))
    for stem, size in (("deep", (57, 49)), ("7x7", (41, 41))):
        cases.update(pspnet_case(stem, size, training=True))
    save("pspnet.npz", cases)
    save("torchvision.npz", torchvision_resnet())
