"""Cars and buses.

Each has its place (`x`, `z`, metres), casts its shadow on the ground (`cast`) and draws itself into a `View`
(`draw`).
"""

import numpy as np

from inputs.street.palette import BUS, CAR, PAINTS


class Box(object):
    """What cars and buses share: a block seen from behind or in front, and from the side that faces the
    camera.
    """

    width, length = 1.8, 4.3

    def __init__(self, rng, x, z, oncoming):
        self.x, self.z, self.oncoming = x, max(z, 2.0), oncoming
        self.paint = np.array(PAINTS[rng.randint(len(PAINTS))]) * rng.uniform(0.9, 1.1)

    def cast(self, view):
        w, shift = self.width / 2 + 0.12, -0.5 * view.light.side * view.light.contrast
        z0, z1 = self.z - 0.25, self.z + self.length + 0.2
        view.shadow(
            [
                (self.x - w + min(shift, 0), z0),
                (self.x + w + max(shift, 0), z0),
                (self.x + w + max(shift, 0), z1),
                (self.x - w + min(shift, 0), z1),
            ],
            0.62,
        )

    def block(self, view, label, color, bottom, top, z0=0.0, z1=None, inset=0.0, lean=(0.0, 0.0)):
        """A block of the vehicle between heights; its upper edges drawn in by `inset` and by `lean` at the
        two ends.
        """
        z1 = self.length if z1 is None else z1
        half = self.width / 2
        seen = 1 if self.x < view.camera_x else -1  # which side faces the camera
        xs, xt = self.x + seen * half, self.x + seen * (half - inset)
        na, nb = self.z + z0, self.z + z0 + lean[0]
        fa, fb = self.z + z1, self.z + z1 - lean[1]
        lit = 1.08 if seen == -view.light.side else 1 - 0.22 * view.light.contrast
        view.polygon(
            [(xs, bottom, na), (xs, bottom, fa), (xt, top, fb), (xt, top, nb)], color, label, lit * 0.9
        )
        view.polygon(
            [
                (self.x - half, bottom, na),
                (self.x + half, bottom, na),
                (self.x + half - inset, top, nb),
                (self.x - half + inset, top, nb),
            ],
            color,
            label,
            0.86,
        )
        view.polygon(
            [
                (self.x - half + inset, top, nb),
                (self.x + half - inset, top, nb),
                (self.x + half - inset, top, fb),
                (self.x - half + inset, top, fb),
            ],
            color,
            label,
            1.14,
        )

    def wheels(self, view, label, places, radius):
        seen = 1 if self.x < view.camera_x else -1
        x = self.x + seen * (self.width / 2 + 0.01)
        turn = np.linspace(0, 2 * np.pi, 15)[:-1]
        for z in places:
            for r, color in ((radius, (26, 26, 28)), (radius * 0.55, (150, 152, 156))):
                view.polygon(
                    [(x, radius + r * np.sin(t), self.z + z + r * np.cos(t)) for t in turn], color, label
                )
        for side in (-1, 1):
            view.upright(
                self.x + side * (self.width / 2 - 0.16), self.z, 0.24, 0, radius * 1.1, (24, 24, 26), label
            )

    def lights(self, view, y, size, spread):
        for side in (-1, 1):
            x = self.x + side * spread
            if self.oncoming:
                view.disc(x, y, self.z, size, (236, 240, 240), None, 1.1)
            else:
                view.upright(x, self.z, 1.9 * size, y - 0.7 * size, y + 0.7 * size, (200, 20, 26), None, 1.1)


class Car(Box):
    def __init__(self, rng, x, z, oncoming=False):
        super(Car, self).__init__(rng, x, z, oncoming)
        self.top = rng.uniform(1.42, 1.62)
        self.estate = rng.rand() < 0.5

    def draw(self, view):
        near, far = (0.9, 1.0) if self.oncoming else (0.15 if self.estate else 0.7, 1.25)
        glass = (44, 58, 74)
        self.wheels(view, CAR, (0.8, self.length - 0.85), 0.34)
        self.block(view, CAR, self.paint, 0.28, 0.92, inset=0.04, lean=(0.05, 0.05))
        self.wheels(view, CAR, (0.8, self.length - 0.85), 0.33)
        view.upright(self.x, self.z, self.width, 0.26, 0.46, self.paint * 0.45, CAR)
        view.upright(self.x, self.z, self.width - 0.5, 0.14, 0.28, (20, 20, 22), CAR)
        self.block(
            view, CAR, self.paint, 0.92, self.top, near, self.length - far, inset=0.2, lean=(0.45, 0.55)
        )
        self._windows(view, near, far, glass)
        self.lights(view, 0.72, 0.13, self.width / 2 - 0.22)
        view.upright(self.x, self.z, 0.5, 0.5, 0.62, (236, 232, 214))
        if self.oncoming:
            view.upright(self.x, self.z, 0.9, 0.64, 0.8, self.paint * 0.35)

    def _windows(self, view, near, far, glass):
        low, high = 0.97, self.top - 0.09
        half = self.width / 2

        def at(y):  # how far the cabin has drawn in at this height: aside, at the near end, at the far end
            t = (y - 0.92) / (self.top - 0.92)
            return half - 0.2 * t, self.z + near + 0.45 * t, self.z + self.length - far - 0.55 * t

        (wl, nl, fl), (wh, nh, fh) = at(low), at(high)
        view.polygon(
            [
                (self.x - wl + 0.12, low, nl),
                (self.x + wl - 0.12, low, nl),
                (self.x + wh - 0.1, high, nh),
                (self.x - wh + 0.1, high, nh),
            ],
            glass,
        )
        view.polygon(
            [
                (self.x - wl + 0.3, low + 0.1, nl),
                (self.x - wl + 0.6, low + 0.1, nl),
                (self.x - wh + 0.75, high, nh),
                (self.x - wh + 0.5, high, nh),
            ],
            (120, 142, 160),
        )
        seen = 1 if self.x < view.camera_x else -1
        middle = (nl + fl) / 2
        for a, b, c, d in (
            (nl + 0.2, middle - 0.05, middle - 0.05, nh + 0.1),
            (middle + 0.05, fl - 0.3, fh - 0.1, middle + 0.05),
        ):
            view.polygon(
                [
                    (self.x + seen * wl, low, a),
                    (self.x + seen * wl, low, b),
                    (self.x + seen * wh, high, c),
                    (self.x + seen * wh, high, d),
                ],
                glass,
                light=1.15,
            )


class Bus(Box):
    width, length = 2.5, 10.5

    def __init__(self, rng, x, z, oncoming=False):
        super(Bus, self).__init__(rng, x, z, oncoming)
        self.paint = np.array(
            ((196, 38, 40), (236, 190, 50), (40, 110, 170), (230, 228, 220), (66, 140, 90))[rng.randint(5)]
        )

    def draw(self, view):
        self.block(view, BUS, self.paint, 0.4, 3.0, inset=0.06)
        self.wheels(view, BUS, (2.0, 8.2), 0.5)
        seen = 1 if self.x < view.camera_x else -1
        x = self.x + seen * (self.width / 2 - 0.02)
        for k in range(6):
            a = self.z + 0.4 + k * 1.65
            view.polygon([(x, 1.4, a), (x, 1.4, a + 1.45), (x, 2.5, a + 1.45), (x, 2.5, a)], (48, 62, 78))
        view.polygon(
            [
                (x, 0.85, self.z + 0.3),
                (x, 0.85, self.z + 10.3),
                (x, 1.1, self.z + 10.3),
                (x, 1.1, self.z + 0.3),
            ],
            (238, 236, 228),
        )
        view.upright(self.x, self.z, 2.1, 1.35, 2.55, (44, 58, 74))
        view.polygon(
            [
                (self.x - 0.8, 1.5, self.z),
                (self.x - 0.4, 1.5, self.z),
                (self.x, 2.5, self.z),
                (self.x - 0.4, 2.5, self.z),
            ],
            (104, 126, 146),
        )
        view.upright(self.x, self.z, 1.5, 2.66, 2.9, (32, 32, 34))
        view.upright(self.x, self.z, 1.0, 2.7, 2.84, (250, 190, 70), None, 1.1)
        view.upright(self.x, self.z, 2.4, 0.4, 0.62, (50, 50, 54))
        self.lights(view, 0.85, 0.16, 0.95)
