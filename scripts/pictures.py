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


def sheet(cells, columns, width, title="", key=None):
    """Captioned panels in a grid, each at most `width` pixels wide.

    Args:
        cells: list of (lines, panel): the strings over a panel, broken where they are too long, and a [H, W, 3] uint8
            array of any size.
        columns: panels in a row.
        title: a line over all of it.
        key: (colors, names, classes) of a legend under it.

    Returns:
        A PIL image in RGB.
    """
    font, large = _font(14), _font(18)
    line = font.size + 4
    cells = [(lines, _fitted(panel, width)) for lines, panel in cells]
    width = max(panel.size[0] for _, panel in cells)
    cells = [(_wrapped(lines, font, width), panel) for lines, panel in cells]
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    texts = [max(len(lines) for lines, _ in row) * line for row in rows]
    heights = [text + max(panel.size[1] for _, panel in row) for text, row in zip(texts, rows)]
    top = large.size + 2 * MARGIN if title else MARGIN
    across = min(columns, len(cells)) * (width + 2 * MARGIN)
    below = legend(key[0], key[1], across - 2 * MARGIN, font, key[2]) if key else Image.new("RGB", (1, 1), "white")
    bottom = top + sum(heights) + 2 * MARGIN * len(rows)
    picture = Image.new("RGB", (across, bottom + below.size[1]), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((MARGIN, MARGIN // 2), title, fill="black", font=large)
    picture.paste(below, (MARGIN, bottom))
    for row, text, height in zip(rows, texts, heights):
        for place, (lines, panel) in enumerate(row):
            left = MARGIN + place * (width + 2 * MARGIN)
            for number, words in enumerate(lines):
                draw.text((left, top + number * line), words, fill="black" if number == 0 else "#555555", font=font)
            picture.paste(panel, (left, top + text))
        top += height + 2 * MARGIN
    return picture


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


def _fitted(panel, width):
    """A PIL image no wider than this: a small panel enlarged by a whole factor, a large one scaled down."""
    factor = width // panel.shape[1]
    if factor:
        return _enlarged(panel, factor)
    size = (width, max(1, round(panel.shape[0] * width / panel.shape[1])))
    return Image.fromarray(panel).resize(size, Image.LANCZOS)


def _wrapped(lines, font, width):
    """Lines no wider than `width`, broken between words, or inside one that is wider by itself."""
    result = []
    for text in lines:
        line = ""
        for word in text.split(" "):
            joined = (line + " " + word).lstrip()
            if line and font.getlength(joined) > width:
                result.append(line)
                joined = word
            while font.getlength(joined) > width and len(joined) > 1:
                cut = next(n for n in range(len(joined), 0, -1) if n == 1 or font.getlength(joined[:n]) <= width)
                result.append(joined[:cut])
                joined = joined[cut:]
            line = joined
        result.append(line)
    return result


def _font(size):
    """The font that comes with matplotlib: the same on every machine and for every Pillow."""
    path = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return ImageFont.truetype(path, size)
