"""The rows of houses along a street, gardens between them, and what closes the street in the distance."""

import numpy as np

from inputs.street.furniture import Tree
from inputs.street.palette import BRIGHT, BUILDING, FACADES, ROOFS, VEGETATION


def row(view, rng, sign, side):
    """A row of houses along one side, drawn from the far end."""
    lots, z = [], rng.uniform(-2, 3)
    while z < 110:
        length = rng.uniform(8, 17)
        lots.append((z, z + length, rng.rand() > 0.16))
        z += length
    lit = 1 - (0.28 if sign == view.light.side else -0.05) * view.light.contrast
    for z0, z1, built in reversed(lots):
        (_house if built else _garden)(view, rng, side.facade, sign, max(z0, 1.0), z1, lit)


def _house(view, rng, x, sign, z0, z1, lit):
    color = np.array(FACADES[rng.randint(len(FACADES))]) * rng.uniform(0.85, 1.08)
    floors = rng.randint(2, 6)
    storey = rng.uniform(2.9, 3.5)
    top = floors * storey + 0.6
    back = x + sign * 12
    view.polygon([(x, 0, z0), (back, 0, z0), (back, top, z0), (x, top, z0)], color, BUILDING, 0.8)
    if rng.rand() < 0.5:
        ridge, rise = x + sign * 4, rng.uniform(1.5, 3)
        roof = ROOFS[rng.randint(len(ROOFS))]
        view.polygon([(x, top, z0), (back, top, z0), (ridge, top + rise, z0)], color, BUILDING, 0.76)
        view.polygon(
            [(x, top, z0), (x, top, z1), (ridge, top + rise, z1), (ridge, top + rise, z0)],
            roof,
            BUILDING,
            lit,
        )

    def wall(za, zb, ya, yb, c, label=None, light=lit):
        view.polygon([(x, ya, za), (x, ya, zb), (x, yb, zb), (x, yb, za)], c, label, light)

    for a, b in zip(np.linspace(z0, z1, 3)[:-1], np.linspace(z0, z1, 3)[1:]):
        wall(a, b, 0, top, color, BUILDING)
    wall(z0, z1, top - 0.45, top, color * 0.78)
    columns = max(int((z1 - z0) / rng.uniform(2.2, 3.0)), 1)
    pitch = (z1 - z0) / columns
    glass = np.array((62, 78, 96)) * rng.uniform(0.7, 1.3)
    frame = color * 1.18 if rng.rand() < 0.6 else color * 0.7
    dark = view.light.name in ("dusk", "evening")
    wide, tall = rng.uniform(0.42, 0.66), rng.uniform(0.5, 0.66)
    shop = rng.rand() < 0.5
    for floor in range(floors):
        y = floor * storey + 0.75
        if floor == 0 and shop:
            wall(z0 + 0.3, z1 - 0.3, 0.3, storey - 0.5, np.array((52, 54, 60)))
            wall(
                z0 + 0.2,
                z1 - 0.2,
                storey - 0.6,
                storey - 0.05,
                np.array(BRIGHT[rng.randint(len(BRIGHT))]) * 0.8,
            )
            for k in range(columns):
                a = z0 + (k + 0.12) * pitch
                wall(
                    a,
                    a + 0.76 * pitch,
                    0.5,
                    storey - 0.75,
                    (226, 196, 130) if dark else glass * 1.15,
                    light=1.0,
                )
            continue
        if z0 > 45:  # too small to see one by one
            wall(z0, z1, y, y + tall * storey, color * 0.7)
            continue
        for k in range(columns):
            a = z0 + (k + 0.5 - wide / 2) * pitch
            b = a + wide * pitch
            glow = dark and rng.rand() < 0.35
            if z0 < 30:
                wall(a - 0.1, b + 0.1, y - 0.12, y + tall * storey + 0.1, frame)
            wall(
                a,
                b,
                y,
                y + tall * storey,
                (250, 214, 140) if glow else glass * rng.uniform(0.8, 1.25),
                light=1.25 if glow else lit,
            )
            if z0 < 22:
                wall((a + b) / 2 - 0.04, (a + b) / 2 + 0.04, y, y + tall * storey, frame)


def _garden(view, rng, x, sign, z0, z1, lit):
    """A gap between houses: trees behind a hedge."""
    for _ in range(7):
        tx, tz = x + sign * rng.uniform(1.5, 6), rng.uniform(z0, z1)
        Tree(rng, tx, max(tz, 2.5)).draw(view)
    height = rng.uniform(1.2, 1.8)
    green = np.array((66, 98, 50)) * rng.uniform(0.9, 1.15)
    view.polygon([(x, 0, z0), (x, 0, z1), (x, height, z1), (x, height, z0)], green, VEGETATION, lit)
    view.polygon(
        [(x, height * 0.82, z0), (x, height * 0.82, z1), (x, height, z1), (x, height, z0)],
        green,
        None,
        lit * 1.2,
    )


def far_end(view, rng):
    """What closes the street in the distance: a row of houses or of trees."""
    z = rng.uniform(95, 130)
    x = -45.0
    trees = rng.rand() < 0.5
    while x < 50:
        w = rng.uniform(5, 12)
        h = rng.uniform(5, 9) if trees else rng.uniform(7, 18)
        if trees:
            for _ in range(4):
                view.disc(
                    x + rng.uniform(0, w),
                    h * rng.uniform(0.3, 0.7),
                    z,
                    h * 0.4,
                    (70, 98, 58),
                    VEGETATION,
                )
            view.upright(x + w / 2, z, w, 0, h * 0.5, (64, 90, 54), VEGETATION)
        else:
            view.upright(x + w / 2, z, w, 0, h, FACADES[rng.randint(len(FACADES))], BUILDING, 0.85)
        x += w * 0.9
