"""A pinhole view of a street that is drawn twice at once: as a picture and as its label.

World coordinates are metres from the point on the road below the camera: x to the right, y up, z ahead. With
focal length f (pixels), camera height h and vanishing point (cx, cy), a point is seen at

    column = cx + f x / z,    row = cy + f (h - y) / z

Everything is drawn from far to near, in the picture and in the label alike, at twice the final size.
"""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

_FINER = 2
_NEAREST = 0.8  # metres: nothing is drawn closer


class View(object):
    """The two pictures being drawn, the camera and the light."""

    def __init__(self, rng, height, width, light):
        self.size = (height, width)
        self.light = light
        self.camera_x = rng.uniform(0.8, 2.0)
        self.camera_y = rng.uniform(1.2, 1.5)
        self.focal = _FINER * width * rng.uniform(0.95, 1.2)
        self.center = _FINER * width * rng.uniform(0.42, 0.58), _FINER * height * rng.uniform(0.38, 0.46)
        size = (_FINER * width, _FINER * height)
        self.picture = Image.new("RGB", size)
        self.labels = Image.new("L", size)
        self.shadows = Image.new("L", size, 255)
        self._draw = ImageDraw.Draw(self.picture)
        self._draw_label = ImageDraw.Draw(self.labels)
        self._draw_shadow = ImageDraw.Draw(self.shadows)

    def at(self, x, y, z):
        """Where a point is seen: (column, row)."""
        scale = self.focal / (z if z > _NEAREST else _NEAREST)
        return self.center[0] + scale * (x - self.camera_x), self.center[1] + scale * (self.camera_y - y)

    def color(self, color, z, light=1.0):
        """A surface's colour under this light, `z` metres away through the haze."""
        clear = math.exp(-z / self.light.haze_distance)
        r, g, b = color if isinstance(color, tuple) else color.tolist()  # NumPy's scalars are slow one by one
        (rs, gs, bs), (ra, ga, ba), k = self.light.sun, self.light.haze, light * clear
        hazy = 1 - clear
        return (
            min(int(r * rs * k + ra * hazy), 255),
            min(int(g * gs * k + ga * hazy), 255),
            min(int(b * bs * k + ba * hazy), 255),
        )

    def polygon(self, points, color, label=None, light=1.0):
        """A flat polygon of world points [(x, y, z), ...]; without a label it is a detail of what is below
        it.
        """
        z = sum([p[2] for p in points]) / len(points)
        at = self.at
        self.flat([at(x, y, z) for x, y, z in points], self.color(color, z, light), label)

    def flat(self, pixels, color, label=None):
        """A polygon of picture points, in a final colour."""
        self._draw.polygon(pixels, fill=color)
        if label is not None:
            self._draw_label.polygon(pixels, fill=label)

    def disc(self, x, y, z, radius, color, label=None, light=1.0, stretch=1.0):
        """A disc that faces the camera; `stretch` makes it taller."""
        column, row = self.at(x, y, z)
        r = self.focal * radius / max(z, _NEAREST)
        box = (column - r, row - r * stretch, column + r, row + r * stretch)
        self._draw.ellipse(box, fill=self.color(color, z, light))
        if label is not None:
            self._draw_label.ellipse(box, fill=label)

    def upright(self, x, z, width, bottom, top, color, label=None, light=1.0):
        """A rectangle that faces the camera, `width` wide, standing at (x, z)."""
        half = width / 2
        self.polygon(
            [(x - half, bottom, z), (x + half, bottom, z), (x + half, top, z), (x - half, top, z)],
            color,
            label,
            light,
        )

    def ground(self, x0, x1, z0, z1, color, label=None, light=1.0, y=0.0):
        """A rectangle on the ground, or `y` above it; far ones in pieces, for the haze to grow with the
        distance.
        """
        edges = np.unique(np.concatenate([[z0], [z for z in (8, 14, 24, 40, 70) if z0 < z < z1], [z1]]))
        for near, far in zip(edges[:-1], edges[1:]):
            self.polygon([(x0, y, near), (x1, y, near), (x1, y, far), (x0, y, far)], color, label, light)

    def shadow(self, points, darkness=0.5):
        """A shadow on the ground from points [(x, z), ...]; cast by `cast_shadows`."""
        self._draw_shadow.polygon([self.at(x, 0, z) for x, z in points], fill=int(255 * (1 - darkness)))

    def round_shadow(self, x, z, radius, darkness=0.5):
        turn = np.linspace(0, 2 * np.pi, 13)[:-1]
        self.shadow([(x + radius * np.cos(t), max(z + radius * np.sin(t), 1)) for t in turn], darkness)

    def cast_shadows(self):
        """Darkens what is drawn so far (the ground) by the shadows, softened."""
        soft = self.shadows.filter(ImageFilter.GaussianBlur(1.2 * _FINER))
        self.picture.paste((18, 20, 34), mask=soft.point(lambda v: 255 - v))

    def finished(self):
        """(picture [H, W, 3] float32, labels [H, W] uint8) at the final size: colours averaged, labels by
        majority.
        """
        height, width = self.size
        picture = np.asarray(self.picture.resize((width, height), Image.BOX), np.float32)
        fine = np.asarray(self.labels)
        a, b, c, d = (fine[i::_FINER, j::_FINER] for i in range(2) for j in range(2))
        twice = np.where((b == c) | (b == d), b, np.where(c == d, c, a))
        return picture, np.where((a == b) | (a == c) | (a == d), a, twice)
