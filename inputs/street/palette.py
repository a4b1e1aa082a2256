"""LabelIds and colours (RGB 0..255) of what a drawn street consists of."""

from cityscapesscripts.helpers.labels import name2label


def _ids(*names):
    return [name2label[name].id for name in names]


EGO, STATIC = _ids("ego vehicle", "static")
ROAD, SIDEWALK, BUILDING, FENCE, TERRAIN, SKY = _ids(
    "road", "sidewalk", "building", "fence", "terrain", "sky"
)
POLE, LIGHT, SIGN, VEGETATION = _ids("pole", "traffic light", "traffic sign", "vegetation")
PERSON, RIDER, CAR, BUS, BICYCLE = _ids("person", "rider", "car", "bus", "bicycle")


PAINTS = (
    (176, 30, 34),
    (32, 58, 128),
    (214, 216, 218),
    (40, 42, 46),
    (150, 154, 158),
    (232, 230, 224),
    (92, 100, 108),
    (22, 86, 84),
    (196, 152, 40),
    (108, 24, 40),
    (70, 116, 168),
)
BRIGHT = (
    (190, 44, 48),
    (40, 92, 160),
    (222, 178, 60),
    (52, 132, 84),
    (226, 222, 212),
    (124, 60, 132),
    (228, 120, 44),
    (48, 50, 58),
)
SKIN = ((236, 196, 168), (206, 158, 122), (150, 104, 76), (98, 68, 52))
STEEL = (112, 116, 118)
FACADES = (
    (188, 150, 118),
    (206, 190, 160),
    (164, 92, 74),
    (150, 146, 142),
    (214, 204, 188),
    (122, 108, 104),
    (196, 168, 96),
    (148, 164, 172),
    (180, 120, 96),
    (222, 212, 204),
    (132, 84, 68),
    (168, 176, 158),
)
ROOFS = ((120, 62, 48), (88, 72, 68), (70, 74, 84), (140, 80, 56))
PAVEMENTS = ((168, 160, 154), (178, 168, 160), (156, 150, 148), (184, 170, 158))
