"""Composes a street scene and returns its picture and labels.

Sizes are metres, colours RGB 0..255; whatever is drawn carries its Cityscapes labelId.
"""

import collections

import numpy as np
from PIL import Image, ImageFilter

from inputs.street import houses, sky, traffic
from inputs.street.palette import BUILDING, EGO, PAINTS, PAVEMENTS, ROAD, SIDEWALK, TERRAIN, VEGETATION
from inputs.street.view import View


def draw(rng, height, width):
    """One scene: (picture [H, W, 3] uint8 RGB, labelIds [H, W] uint8)."""
    light = sky.draw_light(rng)
    view = View(rng, height, width, light)
    sky.paint(view, rng)
    road = rng.uniform(3.8, 4.6)
    sides = [_side(rng, sign, road) for sign in (-1, 1)]
    houses.far_end(view, rng)
    _ground(view, rng, road, sides)
    placed = traffic.place(rng, road, sides)
    for thing in placed:
        thing.cast(view)
    view.cast_shadows()
    for sign, side in zip((-1, 1), sides):
        houses.row(view, rng, sign, side)
    for thing in sorted(placed, key=lambda t: -t.z):
        thing.draw(view)
    if rng.rand() < 0.35:
        _bonnet(view, rng)
    return _photograph(view, rng)


# Where, in metres from the middle of the road, a side's kerb, sidewalk and houses are; and the sidewalk's colour.
Side = collections.namedtuple("Side", "kerb sidewalk facade pavement")


def _side(rng, sign, road):
    verge = rng.uniform(1.4, 2.4) if rng.rand() < 0.5 else 0.0  # a strip of grass between road and sidewalk
    walk = rng.uniform(2.4, 3.6)
    pavement = PAVEMENTS[rng.randint(len(PAVEMENTS))]
    return Side(sign * road, sign * (road + verge), sign * (road + verge + walk), pavement)


def _ground(view, rng, road, sides):
    asphalt = rng.uniform(78, 112) + np.array([0, 0, rng.uniform(0, 8)])
    view.ground(-road, road, 1, 130, asphalt, ROAD)
    for _ in range(4):  # repaired patches and worn lanes
        x, w, z = rng.uniform(-3, 3), rng.uniform(0.4, 1.2), rng.uniform(4, 25)
        view.ground(x, x + w, z, z + rng.uniform(2, 12), asphalt * rng.uniform(0.86, 1.1))
    white = (218, 216, 208)
    dash, gap, shift = rng.uniform(2.5, 4), rng.uniform(3, 5), rng.uniform(0, 6)
    for k in range(16):
        z = 1.5 + shift + k * (dash + gap)
        view.ground(-0.09, 0.09, z, z + dash, white)
    if rng.rand() < 0.5:
        for x in (-road + 2.3, road - 2.3):
            view.ground(x - 0.06, x + 0.06, 1, 90, white, light=0.95)
    if rng.rand() < 0.4:  # a crossing
        z = rng.uniform(7, 16)
        for x in np.arange(-road + 0.4, road - 0.6, 1.0):
            view.ground(x, x + 0.55, z, z + 3, white)
    for sign, side in zip((-1, 1), sides):
        grass = (104, 138, 62) if rng.rand() < 0.75 else (136, 142, 78)
        stone = np.array(side.pavement)
        view.ground(side.kerb, side.facade + sign * 60, 1, 130, grass, TERRAIN)
        view.ground(side.sidewalk, side.facade, 1, 130, stone, SIDEWALK)
        for z in np.concatenate([np.arange(3, 14, 1.2), np.arange(14, 30, 2.4)]).tolist():
            view.ground(side.sidewalk, side.facade, z, z + 0.05, stone * 0.86)  # joints between slabs
        view.ground(side.kerb, side.kerb + sign * 0.22, 1, 130, stone * 1.12, SIDEWALK)
        view.ground(side.kerb - sign * 0.1, side.kerb, 1, 130, asphalt * 0.72, ROAD)
        if sign == view.light.side and view.light.contrast > 0.5:
            _shade(view, side.facade, side.facade - sign * rng.uniform(1.5, 8))


def _shade(view, facade, edge):
    """The houses' own shadow, from their foot towards the road."""
    view.shadow([(facade, 1), (edge, 1), (edge, 130), (facade, 130)], 0.42)


def _bonnet(view, rng):
    """The camera's own car at the lower edge."""
    width, height = view.picture.size
    rise = rng.uniform(0.04, 0.085) * height
    t = np.linspace(0, 1, 15)
    edge = [(width * (0.08 + 0.84 * a), height - rise * np.sin(np.pi * a) ** 0.45) for a in t]
    color = np.array(PAINTS[rng.randint(len(PAINTS))])
    view.flat(edge, view.color(color * 0.55, 0), EGO)
    view.flat([(c, r + 0.35 * rise) for c, r in edge], view.color(color * 0.7, 0))


# How strongly a surface's brightness varies from pixel to pixel and over larger patches, by labelId.
_GRAIN = {
    ROAD: (0.05, 0.05),
    SIDEWALK: (0.05, 0.04),
    BUILDING: (0.035, 0.05),
    VEGETATION: (0.15, 0.12),
    TERRAIN: (0.12, 0.1),
}


def _photograph(view, rng):
    """Surface texture, then what a camera adds: vignette, contrast, softness and noise."""
    picture, labels = view.finished()
    height, width = labels.shape
    grain = np.full((256, 2), 0.015, np.float32)
    for label, strength in _GRAIN.items():
        grain[label] = strength
    fine, coarse = rng.standard_normal((height, width)), sky.smooth_noise(rng, height, width, 28)
    texture = grain[labels, 0] * fine + grain[labels, 1] * coarse
    picture = picture * (1 + texture)[:, :, None]
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    picture = picture * (1 - rng.uniform(0.03, 0.14) * (x * x + y * y))[:, :, None]
    picture = 128 + (picture - 128) * rng.uniform(0.92, 1.1) + rng.uniform(-8, 8)
    picture = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    if rng.rand() < 0.6:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.6) * width / 256))
    noisy = np.asarray(picture) + rng.uniform(1, 4) * rng.standard_normal((height, width, 3))
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8), labels
