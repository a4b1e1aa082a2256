"""People on foot and bicycles, ridden or parked.

Each has its place (`x`, `z`, metres), casts its shadow on the ground (`cast`) and draws itself into a `View`
(`draw`).
"""

import numpy as np

from inputs.street.palette import BICYCLE, BRIGHT, PERSON, RIDER, SKIN


class Person(object):
    label = PERSON

    def __init__(self, rng, x, z):
        self.x, self.z = x, z
        self.tall = rng.uniform(1.58, 1.9)
        self.coat = np.array(BRIGHT[rng.randint(len(BRIGHT))]) * rng.uniform(0.8, 1.1)
        self.legs = np.array(((44, 52, 78), (36, 36, 40), (104, 92, 76), (70, 76, 88))[rng.randint(4)])
        self.skin = SKIN[rng.randint(len(SKIN))]
        self.hair = ((40, 30, 24), (92, 62, 34), (190, 152, 92), (120, 118, 116))[rng.randint(4)]
        self.stride = rng.uniform(0.06, 0.3)
        self.bag = rng.rand() < 0.4

    def cast(self, view):
        view.round_shadow(self.x - 0.2 * view.light.side, self.z, 0.42, 0.5)

    def draw(self, view):
        x, z, h = self.x, self.z, self.tall
        hip, neck = 0.5 * h, 0.84 * h
        for side in (-1, 1):
            foot = x + side * self.stride
            view.polygon(
                [
                    (foot - 0.1, 0, z),
                    (foot + 0.13, 0, z),
                    (x + 0.19 * max(side, 0) + 0.02, hip, z),
                    (x - 0.19 * max(-side, 0) - 0.02, hip, z),
                ],
                self.legs,
                self.label,
                0.9 if side < 0 else 1.0,
            )
            view.upright(foot + 0.03, z, 0.28, 0, 0.09, (34, 30, 30), self.label)
        self.upper(view, hip, neck)

    def upper(self, view, hip, neck):
        x, z = self.x, self.z
        for side in (-1, 1):
            view.polygon(
                [
                    (x + side * 0.2, neck - 0.04, z),
                    (x + side * 0.3, neck - 0.1, z),
                    (x + side * 0.36, hip - 0.02, z),
                    (x + side * 0.22, hip - 0.02, z),
                ],
                self.coat,
                self.label,
                0.82,
            )
            view.disc(x + side * 0.29, hip - 0.03, z, 0.06, self.skin, self.label)
        view.polygon(
            [
                (x - 0.23, hip - 0.08, z),
                (x + 0.23, hip - 0.08, z),
                (x + 0.25, neck - 0.06, z),
                (x + 0.1, neck, z),
                (x - 0.1, neck, z),
                (x - 0.25, neck - 0.06, z),
            ],
            self.coat,
            self.label,
        )
        lit = view.light.side
        view.polygon(
            [
                (x + lit * 0.05, hip - 0.08, z),
                (x + lit * 0.23, hip - 0.08, z),
                (x + lit * 0.25, neck - 0.06, z),
                (x + lit * 0.07, neck - 0.03, z),
            ],
            self.coat,
            None,
            1.16,
        )
        view.upright(x, z, 0.12, neck - 0.03, neck + 0.08, self.skin, self.label, 0.85)
        view.disc(x, neck + 0.14, z, 0.13, self.hair, self.label, stretch=1.2)
        view.disc(x + 0.015, neck + 0.11, z, 0.11, self.skin, self.label, stretch=1.15)
        if self.bag:
            view.upright(x - lit * 0.12, z, 0.26, hip + 0.12, neck - 0.12, np.array(self.legs) * 0.8)


class Bicycle(object):
    """A bicycle seen from the side, with or without its rider."""

    def __init__(self, rng, x, z, ridden):
        self.x, self.z = x, z
        self.paint = np.array(BRIGHT[rng.randint(len(BRIGHT))])
        self.facing = rng.choice([-1, 1])
        self.turn = rng.uniform(0.75, 1.0)
        self.rider = Person(rng, x, z) if ridden else None

    def cast(self, view):
        view.shadow(
            [
                (self.x - 0.9, self.z - 0.15),
                (self.x + 0.9, self.z - 0.15),
                (self.x + 0.9, self.z + 0.2),
                (self.x - 0.9, self.z + 0.2),
            ],
            0.5,
        )

    def _bar(self, view, a, b, width, color, label=BICYCLE):
        (ax, ay), (bx, by) = a, b
        length = max(np.hypot(bx - ax, by - ay), 1e-6)
        nx, ny = -(by - ay) / length * width / 2, (bx - ax) / length * width / 2
        view.polygon(
            [
                self._at(ax + nx, ay + ny),
                self._at(bx + nx, by + ny),
                self._at(bx - nx, by - ny),
                self._at(ax - nx, ay - ny),
            ],
            color,
            label,
        )

    def _at(self, u, y):
        return self.x + self.facing * self.turn * u, y, self.z

    def draw(self, view):
        turn = np.linspace(0, 2 * np.pi, 21)[:-1]
        for u in (-0.55, 0.55):
            for r, color in ((0.36, (30, 30, 32)), (0.29, (134, 132, 130))):
                view.polygon(
                    [self._at(u + r * np.cos(t), 0.36 + r * np.sin(t)) for t in turn], color, BICYCLE
                )
            for t in (0.3, 1.35, 2.4):
                self._bar(
                    view,
                    (u + 0.28 * np.cos(t), 0.36 + 0.28 * np.sin(t)),
                    (u - 0.28 * np.cos(t), 0.36 - 0.28 * np.sin(t)),
                    0.03,
                    (182, 182, 180),
                )
        for a, b in (
            ((-0.55, 0.36), (-0.2, 0.82)),
            ((-0.55, 0.36), (0.0, 0.33)),
            ((0.0, 0.33), (-0.22, 0.9)),
            ((0.0, 0.33), (0.4, 0.8)),
            ((-0.18, 0.78), (0.4, 0.8)),
            ((0.55, 0.36), (0.38, 0.98)),
        ):
            self._bar(view, a, b, 0.075, self.paint)
        self._bar(view, (-0.36, 0.93), (-0.08, 0.95), 0.09, (34, 32, 32))
        self._bar(view, (0.3, 1.02), (0.5, 1.0), 0.08, (50, 50, 52))
        if self.rider:
            self._draw_rider(view)

    def _draw_rider(self, view):
        who = self.rider
        hip, shoulder = (-0.2, 1.0), (0.1, 1.48)
        self._bar(view, hip, (0.16, 0.75), 0.2, who.legs * 0.85, RIDER)
        self._bar(view, (0.16, 0.75), (0.05, 0.3), 0.15, who.legs * 0.85, RIDER)
        self._bar(view, hip, (0.2, 0.9), 0.22, who.legs, RIDER)
        self._bar(view, (0.2, 0.9), (-0.02, 0.42), 0.16, who.legs, RIDER)
        self._bar(view, (-0.22, 0.92), shoulder, 0.36, who.coat, RIDER)
        self._bar(view, (0.08, 1.42), (0.38, 1.08), 0.13, who.coat * 0.85, RIDER)
        x, y, z = self._at(0.2, 1.68)
        view.disc(x, y, z, 0.15, who.skin, RIDER, stretch=1.1)
        view.disc(x - 0.02 * self.facing, y + 0.07, z, 0.16, who.coat, RIDER, 1.1, stretch=0.75)  # a helmet
