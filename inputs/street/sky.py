"""Light and sky."""

import collections

import numpy as np
from PIL import Image

from inputs.street.palette import ROAD, SKY

Light = collections.namedtuple("Light", "name zenith horizon sun haze haze_distance side contrast")
_LIGHTS = (
    ("noon", (72, 132, 206), (196, 219, 240), (1.02, 1.0, 0.97), (198, 213, 228), 260, 1.0),
    ("morning", (110, 150, 205), (246, 222, 196), (1.06, 0.98, 0.88), (226, 212, 198), 150, 1.0),
    ("evening", (86, 96, 158), (250, 176, 120), (1.05, 0.88, 0.74), (222, 178, 150), 150, 0.9),
    ("overcast", (158, 168, 180), (208, 213, 218), (0.9, 0.92, 0.95), (196, 202, 208), 130, 0.35),
    ("dusk", (46, 62, 112), (176, 150, 168), (0.74, 0.75, 0.88), (134, 130, 156), 150, 0.4),
)


def draw_light(rng):
    """Draws the time of day and where the sun is."""
    time = rng.choice(len(_LIGHTS), p=(0.34, 0.2, 0.15, 0.2, 0.11))
    name, zenith, horizon, sun, haze, distance, contrast = _LIGHTS[time]
    gain = rng.uniform(0.88, 1.1)
    sun = tuple(s * gain * rng.uniform(0.97, 1.03) for s in sun)
    distance, side = distance * rng.uniform(0.8, 1.3), rng.choice([-1, 1])
    return Light(name, zenith, horizon, sun, haze, distance, side, contrast)


def smooth_noise(rng, height, width, cells):
    """Smooth noise [height, width], about -1..1."""
    coarse = rng.uniform(-1, 1, (max(int(cells * height / width), 2), cells)).astype(np.float32)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC))


def paint(view, rng):
    """A gradient with clouds and the sun's glow, drawn at a quarter of the pixels: it is smooth."""
    full_width, full_height = view.picture.size
    full_rows = int(view.center[1]) + 4
    rows, width = full_rows // 2 + 1, full_width // 2
    light = view.light
    t = np.linspace(0, 1, rows)[:, None, None] ** 1.3
    sky = np.array(light.zenith) * (1 - t) + np.array(light.horizon) * t
    clouds = sum(
        share * smooth_noise(rng, rows, width, cells) for share, cells in ((1, 5), (0.5, 11), (0.25, 24))
    )
    cover = np.clip((clouds + rng.uniform(-0.9, 0.35)) * 1.6, 0, 1)[:, :, None] * (0.25 + 0.75 * t) * 0.85
    white = np.array(light.horizon) * 0.5 + 255 * 0.5 * min(light.sun[1], 1)
    sky = sky * (1 - cover) + white * cover
    aside = np.arange(width) / width - (0.5 + 0.35 * light.side)
    glow = np.exp(-((aside / 0.3) ** 2))[None, :, None] * t
    sky = np.clip(sky + glow * light.contrast * np.array((40, 30, 12)), 0, 255).astype(np.uint8)
    view.labels.paste(SKY, (0, 0, full_width, full_rows))
    view.picture.paste(Image.fromarray(sky).resize((full_width, full_rows), Image.BILINEAR))
    haze = tuple(int(c) for c in light.haze)
    view.labels.paste(ROAD, (0, full_rows, full_width, full_height))
    view.picture.paste(haze, (0, full_rows, full_width, full_height))
