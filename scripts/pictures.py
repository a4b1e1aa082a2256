"""Pictures of what a network sees: class colours over the image, beside the truth, and a legend.

A labelling is a [H, W] array of train ids; 255 (ignored) shows the image itself, greyed. Colours are the
Cityscapes ones, [C, 3] uint8.
"""

import os

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

OPACITY = 0.6
MARGIN = 8  # pixels around and between the panels
PANEL_WIDTH = 480  # smaller images are enlarged by a whole factor, to about this width, to make room for text


def overlay(image, labels, colors, opacity=OPACITY):
    """Class colours over an image.

    Args:
        image: [H, W, 3] uint8.
        labels: [H, W] integer train ids; ids without a colour show the image in grey.
        colors: [C, 3] uint8.

    Returns:
        [H, W, 3] uint8.
    """
    known = (labels >= 0) & (labels < len(colors))
    painted = np.asarray(colors)[np.where(known, labels, 0)]
    mixed = (1 - opacity) * image + opacity * painted
    grey = 0.5 * image.mean(axis=-1, keepdims=True)
    return np.rint(np.where(known[..., None], mixed, grey)).astype(np.uint8)


def triple(image, truth, prediction, colors, names, title=""):
    """One picture of image, truth and prediction side by side, over a legend of the classes in either.

    Args:
        image: [H, W, 3] uint8.
        truth, prediction: [H, W] integer train ids.
        colors: [C, 3] uint8; names: C strings.
        title: written over the image.

    Returns:
        A PIL image in RGB.
    """
    panels = [
        ("image  " + title, image),
        ("truth", overlay(image, truth, colors)),
        ("prediction", overlay(image, prediction, colors)),
    ]
    factor = max(1, round(PANEL_WIDTH / image.shape[1]))
    panels = [(text, _enlarged(panel, factor)) for text, panel in panels]
    height, width = panels[0][1].size[::-1]
    font = _font(max(12, width // 32))
    line = font.size + MARGIN

    total = 3 * width + 4 * MARGIN
    shown = sorted(set(np.unique(truth)) | set(np.unique(prediction)))
    key = legend(colors, names, total - 2 * MARGIN, font, [int(c) for c in shown if 0 <= c < len(names)])
    sheet = Image.new("RGB", (total, line + height + MARGIN + key.size[1] + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (text, panel) in enumerate(panels):
        left = MARGIN + place * (width + MARGIN)
        draw.text((left, MARGIN // 2), text, fill="black", font=font)
        sheet.paste(panel, (left, line))
    sheet.paste(key, (MARGIN, line + height + MARGIN))
    return sheet


def legend(colors, names, width, font=None, classes=None):
    """Rows of coloured squares with class names, `width` pixels wide; of all classes or only `classes`."""
    font = font or _font(14)
    classes = range(len(names)) if classes is None else classes
    row, square = font.size + MARGIN, font.size
    places, left, top = [], 0, 0
    for index in classes:
        needed = square + MARGIN // 2 + int(font.getlength(names[index])) + 2 * MARGIN
        if left and left + needed > width:
            left, top = 0, top + row
        places.append((index, left, top))
        left += needed
    sheet = Image.new("RGB", (width, top + row), "white")
    draw = ImageDraw.Draw(sheet)
    for index, left, top in places:
        color = tuple(int(channel) for channel in colors[index])
        draw.rectangle([left, top + 1, left + square, top + 1 + square], fill=color, outline="black")
        draw.text((left + square + MARGIN // 2, top), names[index], fill="black", font=font)
    return sheet


def save(picture, path):
    """Writes a PIL image or a [H, W(, 3)] uint8 array as PNG, whole or not at all."""
    if not isinstance(picture, Image.Image):
        picture = Image.fromarray(picture)
    partial = path + ".partial"
    with open(partial, "wb") as file:
        picture.save(file, format="PNG")
    os.replace(partial, path)


def _enlarged(panel, factor):
    panel = Image.fromarray(panel)
    return panel.resize((panel.size[0] * factor, panel.size[1] * factor), Image.NEAREST)


def _font(size):
    """The font that comes with matplotlib: the same on every machine and for every Pillow."""
    path = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return ImageFont.truetype(path, size)
