"""What stands on a street: trees, lamps, traffic lights, signs and bins.

Each has its place (`x`, `z`, metres), casts its shadow on the ground (`cast`) and draws itself into a `View`
(`draw`).
"""

import numpy as np

from inputs.street.palette import LIGHT, POLE, SIGN, STATIC, STEEL, VEGETATION


class Tree(object):
    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.height = rng.uniform(4.2, 7.0)
        self.radius = rng.uniform(1.2, 1.9)
        green = np.array(
            ((74, 112, 48), (92, 122, 52), (58, 98, 58), (116, 122, 50), (86, 130, 66))[rng.randint(5)]
        )
        self.green = green * rng.uniform(0.85, 1.12)
        n = 46
        turn, reach = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.uniform(0, 1, n))
        up = np.sin(turn) * reach
        order = np.argsort(up + rng.uniform(-0.4, 0.4, n))  # lower, darker leaves first
        self.leaves = np.stack(
            [np.cos(turn) * reach, up, rng.uniform(0.26, 0.46, n), rng.uniform(0.85, 1.15, n)], 1
        )[order]

    def cast(self, view):
        view.round_shadow(
            self.x - view.light.side * 0.8, self.z, self.radius, 0.15 + 0.3 * view.light.contrast
        )

    def draw(self, view):
        view.upright(self.x, self.z, 0.34, 0, self.height - self.radius * 0.7, (86, 68, 52), VEGETATION)
        view.upright(
            self.x + view.light.side * 0.1, self.z, 0.12, 0, self.height - self.radius, (112, 90, 68)
        )
        step = 1 if self.z < 18 else 2 if self.z < 40 else 3
        for dx, dy, size, tone in self.leaves[::step].tolist():
            shade = tone * (0.86 + 0.3 * dy + 0.1 * view.light.contrast * dx * view.light.side)
            view.disc(
                self.x + dx * self.radius,
                self.height - 0.8 * self.radius + dy * self.radius * 1.1,
                self.z,
                size * self.radius * (1 + 0.15 * (step - 1)),
                self.green,
                VEGETATION,
                shade,
            )


class Lamp(object):
    """A street lamp whose arm reaches over the road."""

    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.height, self.reach = rng.uniform(5.5, 7.5), -np.sign(x) * rng.uniform(1.4, 2.2)
        self.color = STEEL if rng.rand() < 0.6 else (62, 76, 70)

    def cast(self, view):
        view.round_shadow(self.x, self.z, 0.25, 0.4)

    def draw(self, view):
        x, z, h = self.x, self.z, self.height
        view.upright(x, z, 0.36, 0, h, self.color, POLE)
        view.upright(x, z, 0.46, 0, 0.9, self.color, POLE, 0.85)
        view.upright(x + 0.06, z, 0.07, 0.9, h, self.color, None, 1.35)
        view.polygon(
            [(x, h - 0.2, z), (x, h, z), (x + self.reach, h + 0.35, z), (x + self.reach, h + 0.13, z)],
            self.color,
            POLE,
        )
        end = x + self.reach
        view.polygon(
            [
                (end - 0.4, h + 0.12, z),
                (end + 0.4, h + 0.12, z),
                (end + 0.3, h + 0.42, z),
                (end - 0.3, h + 0.42, z),
            ],
            (86, 88, 92),
            POLE,
        )


class Signal(object):
    """A traffic light on its pole."""

    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.height = rng.uniform(2.9, 3.9)
        self.on = rng.randint(3)
        self.size = rng.uniform(1.0, 1.2)

    def cast(self, view):
        view.round_shadow(self.x, self.z, 0.3, 0.4)

    def draw(self, view):
        x, z, h, s = self.x, self.z, self.height, self.size
        view.upright(x, z, 0.3, 0, h, STEEL, POLE)
        view.upright(x + 0.06, z, 0.06, 0, h, STEEL, None, 1.35)
        view.upright(x, z, 0.72 * s, h - 0.4 * s, h + 1.3 * s, (206, 176, 42), LIGHT, 0.9)
        view.upright(x, z, 0.6 * s, h - 0.34 * s, h + 1.24 * s, (26, 30, 30), LIGHT)
        colors = ((56, 214, 120), (250, 190, 50), (246, 48, 40))
        for k in range(3):
            lit = k == self.on
            y = h + (-0.08 + 0.53 * k) * s
            view.disc(
                x, y, z, 0.21 * s, np.array(colors[k]) * (1.0 if lit else 0.28), None, 1.15 if lit else 1.0
            )
            if lit:
                view.disc(x - 0.05, y + 0.05, z, 0.09 * s, (255, 250, 236), None, 1.2)


class Sign(object):
    """A traffic sign on its pole: no entry, speed limit, warning triangle, priority, parking, crossing."""

    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.kind = rng.randint(6)
        self.height = rng.uniform(2.3, 2.9)
        self.radius = rng.uniform(0.5, 0.64)

    def cast(self, view):
        view.round_shadow(self.x, self.z, 0.25, 0.4)

    def draw(self, view):
        x, z, y, r = self.x, self.z, self.height, self.radius
        view.upright(x, z, 0.26, 0, y, STEEL, POLE)
        view.upright(x + 0.05, z, 0.05, 0, y, STEEL, None, 1.35)
        red, blue, white, yellow = (206, 30, 40), (26, 84, 176), (240, 240, 236), (246, 204, 44)
        if self.kind == 0:
            view.disc(x, y, z, r, red, SIGN)
            view.upright(x, z, 1.3 * r, y - 0.18 * r, y + 0.18 * r, white)
        elif self.kind == 1:
            view.disc(x, y, z, r, red, SIGN)
            view.disc(x, y, z, 0.72 * r, white)
            for dx in (-0.24, 0.24):
                view.upright(x + dx * r, z, 0.24 * r, y - 0.34 * r, y + 0.34 * r, (30, 30, 34))
        elif self.kind == 2:
            for s, c, label in ((1.25, red, SIGN), (0.8, white, None)):
                view.polygon(
                    [
                        (x - s * r, y - 0.58 * s * r, z),
                        (x + s * r, y - 0.58 * s * r, z),
                        (x, y + 1.1 * s * r, z),
                    ],
                    c,
                    label,
                )
            view.upright(x, z, 0.16 * r, y - 0.25 * r, y + 0.35 * r, (30, 30, 34))
        elif self.kind == 3:
            for s, c, label in ((1.2, white, SIGN), (0.88, yellow, None)):
                view.polygon(
                    [(x - s * r, y, z), (x, y - s * r, z), (x + s * r, y, z), (x, y + s * r, z)], c, label
                )
        else:
            view.upright(x, z, 1.8 * r, y - 0.9 * r, y + 0.9 * r, white, SIGN)
            view.upright(x, z, 1.6 * r, y - 0.8 * r, y + 0.8 * r, blue)
            if self.kind == 4:
                view.upright(x - 0.2 * r, z, 0.24 * r, y - 0.55 * r, y + 0.55 * r, white)
                view.disc(x + 0.1 * r, y + 0.22 * r, z, 0.33 * r, white)
                view.disc(x + 0.1 * r, y + 0.22 * r, z, 0.13 * r, blue)
            else:
                view.polygon(
                    [(x - 0.6 * r, y - 0.6 * r, z), (x + 0.6 * r, y - 0.6 * r, z), (x, y + 0.65 * r, z)],
                    white,
                )


class Bin(object):
    """A waste bin: `static` in Cityscapes, so neither trained nor scored."""

    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.color = ((60, 84, 66), (70, 74, 82), (150, 92, 40))[rng.randint(3)]

    def cast(self, view):
        view.round_shadow(self.x, self.z, 0.45, 0.5)

    def draw(self, view):
        view.upright(self.x, self.z, 0.62, 0, 1.0, self.color, STATIC)
        view.upright(self.x + 0.2, self.z, 0.16, 0, 1.0, self.color, None, 0.8)
        view.upright(self.x, self.z, 0.72, 0.92, 1.06, self.color, STATIC, 0.65)
