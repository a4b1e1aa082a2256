"""The training step of a PSPNet-50 in PyTorch, on the CPU, with plain batch norm and the whole batch on one device.

    python -m scripts.contestants.torch_step --crop=473 --batch=2

The same network and loss as configs/cityscapes_pspnet50.py, auxiliary head included, under the names that semseg's weights
have. Needs torch and numpy, and nothing else.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from scripts.contestants import measurement

CLASSES, IGNORE, AUX_WEIGHT = 19, 255, 0.4
BINS = (1, 2, 3, 6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--crop", type=int, default=65)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--memory_format", choices=("contiguous", "channels_last"), default="contiguous")
    measurement.report(measure(parser.parse_args()), ("torch", "numpy"))


def measure(args):
    """The result of a run with parsed arguments, a dict."""
    torch.manual_seed(0)
    order = torch.channels_last if args.memory_format == "channels_last" else torch.contiguous_format
    model = PSPNet().to(memory_format=order).train()
    rng = np.random.RandomState(0)
    image = rng.normal(size=(args.batch, args.crop, args.crop, 3)).astype(np.float32)
    label = torch.from_numpy(rng.randint(CLASSES, size=(args.batch, args.crop, args.crop)).astype(np.int64))
    image = torch.from_numpy(np.ascontiguousarray(image.transpose(0, 3, 1, 2))).to(memory_format=order)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = model.loss(image, label)
        loss.backward()
        optimizer.step()
        return loss.item()

    result = measurement.timed(step, args.steps, args.warmup)
    return dict(result, parameters=sum(p.numel() for p in model.parameters()), threads=torch.get_num_threads())


class PSPNet(nn.Module):
    """PSPNet on a dilated ResNet of bottleneck units with a deep stem."""

    def __init__(self, units=(3, 4, 6, 3), dropout=0.1):
        super().__init__()
        self.layer0 = nn.Sequential(
            *_conv_norm_relu(3, 64, 3, stride=2), *_conv_norm_relu(64, 64, 3), *_conv_norm_relu(64, 128, 3),
            nn.MaxPool2d(3, 2, 1))
        channels = 128
        for number, (count, stride, dilation) in enumerate(zip(units, (1, 2, 1, 1), (1, 1, 2, 4)), start=1):
            width, stage = 32 * 2 ** number, []
            for unit in range(count):
                stage.append(Bottleneck(channels, width, stride if unit == 0 else 1, dilation))
                channels = 4 * width
            setattr(self, "layer%d" % number, nn.Sequential(*stage))
        self.ppm = Pyramid(channels, 512)
        self.cls = _classifier(2 * channels, 512, dropout)
        self.aux = _classifier(channels // 2, 256, dropout)

    def forward(self, image):
        """Logits and auxiliary logits [N, C, H, W] of images [N, 3, H, W]."""
        size = image.shape[2:]
        stage3 = self.layer3(self.layer2(self.layer1(self.layer0(image))))
        outputs = self.cls(self.ppm(self.layer4(stage3))), self.aux(stage3)
        return [functional.interpolate(x, size, mode="bilinear", align_corners=True) for x in outputs]

    def loss(self, image, label):
        main, auxiliary = (functional.cross_entropy(x, label, ignore_index=IGNORE) for x in self(image))
        return main + AUX_WEIGHT * auxiliary


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, dilation):
        super().__init__()
        self.conv1, self.bn1 = _conv_norm(inputs, width, 1)
        self.conv2, self.bn2 = _conv_norm(width, width, 3, stride, dilation)
        self.conv3, self.bn3 = _conv_norm(width, 4 * width, 1)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(*_conv_norm(inputs, 4 * width, 1, stride))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = functional.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


class Pyramid(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.features = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(b), *_conv_norm_relu(inputs, outputs, 1)) for b in BINS)

    def forward(self, x):
        size = x.shape[2:]
        pooled = [functional.interpolate(f(x), size, mode="bilinear", align_corners=True) for f in self.features]
        return torch.cat([x] + pooled, 1)


def _classifier(inputs, channels, dropout):
    return nn.Sequential(*_conv_norm_relu(inputs, channels, 3), nn.Dropout2d(dropout), nn.Conv2d(channels, CLASSES, 1))


def _conv_norm(inputs, outputs, size, stride=1, dilation=1):
    padding = size // 2 * dilation
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding, dilation, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution, nn.BatchNorm2d(outputs)


def _conv_norm_relu(inputs, outputs, size, stride=1):
    return _conv_norm(inputs, outputs, size, stride) + (nn.ReLU(inplace=True),)


if __name__ == "__main__":
    main()
