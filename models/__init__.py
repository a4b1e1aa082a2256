"""Networks, losses, metrics and inference, written on the public interface of `towers`.

    resnet.py      dilated ResNet-50/101 and a thin one for small machines
    resampling.py  adaptive average pooling and bilinear resizing, as small matrix products
    pspnet.py      the pyramid scene parsing network on one of those backbones
    losses.py      per-pixel cross-entropy: ignored pixels, class weights, hard pixels, auxiliary head
    metrics.py     confusion matrix in the graph, scores as the official Cityscapes scorer computes them
    inference.py   sliding windows, flip and scales over any number of towers
    pretrained/    weights of slim, torchvision, semseg and others under our names

Each works outside a tower too, as tower 0 of 1. Nothing here but pretrained/ reads files, and nothing knows a
configuration system.
"""
