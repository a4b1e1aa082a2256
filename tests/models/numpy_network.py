"""A PSPNet forward pass in float64 NumPy, in PyTorch's geometry: the tests' oracle.

It is written from the papers, reads weights by name from a dict, and shares no code with models/.
"""

import numpy as np


class NumpyNetwork(object):
    """Forward pass of the network whose variables are `weights` (name to array).

    training: batch norm takes the batch's own statistics (biased variance) instead of the moving ones.
    """

    def __init__(self, weights, training=False, epsilon=1e-5):
        self.weights, self.training, self.epsilon = weights, training, epsilon

    def conv(self, x, name, stride=1, dilation=1, bias=False):
        kernel = self.weights[name + "/kernel"]
        size = kernel.shape[0]
        pad = size // 2 * dilation
        x = np.pad(x, [(0, 0), (pad, pad), (pad, pad), (0, 0)])
        reach = (size - 1) * dilation
        rows, columns = ((n - reach - 1) // stride + 1 for n in x.shape[1:3])
        out = np.zeros(x.shape[:1] + (rows, columns, kernel.shape[3]))
        for i in range(size):
            for j in range(size):
                taps = x[:, i * dilation :, j * dilation :][:, ::stride, ::stride][:, :rows, :columns]
                out += taps.dot(kernel[i, j])
        return out + self.weights[name + "/bias"] if bias else out

    def norm(self, x, name):
        if self.training:
            mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
        else:
            mean, variance = self.weights[name + "/moving_mean"], self.weights[name + "/moving_variance"]
        scale = self.weights[name + "/gamma"] / np.sqrt(variance + self.epsilon)
        return (x - mean) * scale + self.weights[name + "/beta"]

    def conv_norm_relu(self, x, conv, norm, **options):
        return np.maximum(self.norm(self.conv(x, conv, **options), norm), 0)

    def max_pool(self, x):
        x = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-np.inf)
        rows, columns = ((n - 3) // 2 + 1 for n in x.shape[1:3])
        windows = [x[:, i::2, j::2][:, :rows, :columns] for i in range(3) for j in range(3)]
        return np.max(windows, axis=0)

    def stem(self, x, kind):
        layers = [("resnet/stem/conv%d" % k, "resnet/stem/bn%d" % k) for k in (1, 2, 3)]
        x = self.conv_norm_relu(x, *layers[0], stride=2)
        if kind == "thin":
            return self.conv_norm_relu(x, *layers[1], stride=2)
        if kind == "deep":
            x = self.conv_norm_relu(self.conv_norm_relu(x, *layers[1]), *layers[2])
        return self.max_pool(x)

    def unit(self, x, scope, stride, dilation):
        bottleneck = scope + "/conv3/kernel" in self.weights
        if bottleneck:
            y = self.conv_norm_relu(x, scope + "/conv1", scope + "/bn1")
            y = self.conv_norm_relu(y, scope + "/conv2", scope + "/bn2", stride=stride, dilation=dilation)
            y = self.norm(self.conv(y, scope + "/conv3"), scope + "/bn3")
        else:
            y = self.conv_norm_relu(x, scope + "/conv1", scope + "/bn1", stride=stride, dilation=dilation)
            y = self.norm(self.conv(y, scope + "/conv2", dilation=dilation), scope + "/bn2")
        if scope + "/shortcut/kernel" in self.weights:
            x = self.norm(self.conv(x, scope + "/shortcut", stride=stride), scope + "/shortcut_bn")
        return np.maximum(x + y, 0)

    def stages(self, x, kind):
        x, results = self.stem(x, kind), []
        for stage, (stride, dilation) in enumerate([(1, 1), (2, 1), (1, 2), (1, 4)], start=1):
            unit = 1
            while "resnet/stage%d/unit%d/conv1/kernel" % (stage, unit) in self.weights:
                x = self.unit(
                    x, "resnet/stage%d/unit%d" % (stage, unit), stride if unit == 1 else 1, dilation
                )
                unit += 1
            results.append(x)
        return results

    def pspnet(self, images, kind, bins, align_corners):
        """(logits, aux_logits or None)."""
        stages = self.stages(images, kind)
        x = stages[3]
        branches = [x]
        for b in bins:
            scope = "pspnet/pyramid/bin%d" % b
            y = self.conv_norm_relu(adaptive_average(x, b), scope + "/conv", scope + "/bn")
            branches.append(bilinear(y, x.shape[1:3], align_corners))
        logits = self.classifier(np.concatenate(branches, axis=-1), "head", images.shape[1:3], align_corners)
        if not self.training or "pspnet/aux/conv/kernel" not in self.weights:
            return logits, None
        return logits, self.classifier(stages[2], "aux", images.shape[1:3], align_corners)

    def classifier(self, x, name, size, align_corners):
        x = self.conv_norm_relu(x, "pspnet/%s/conv" % name, "pspnet/%s/bn" % name)
        return bilinear(self.conv(x, "pspnet/%s/logits" % name, bias=True), size, align_corners)


def adaptive_average(x, bins):
    n, height, width, channels = x.shape
    out = np.zeros((n, bins, bins, channels))
    for i in range(bins):
        for j in range(bins):
            rows = slice(i * height // bins, -(-(i + 1) * height // bins))
            columns = slice(j * width // bins, -(-(j + 1) * width // bins))
            out[:, i, j] = x[:, rows, columns].mean(axis=(1, 2))
    return out


def bilinear(x, size, align_corners):
    for axis, m in zip((1, 2), size):
        n = x.shape[axis]
        places = np.arange(m) * ((n - 1) / (m - 1) if align_corners else n / m)
        low = np.minimum(np.floor(places).astype(int), n - 1)
        high = np.minimum(low + 1, n - 1)
        part = (np.minimum(places, n - 1) - low).reshape([-1 if a == axis else 1 for a in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x
