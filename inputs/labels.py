"""The Cityscapes label table as arrays, taken from `cityscapesscripts.helpers.labels`.

A *labelId* is the number in a `_gtFine_labelIds.png` (0..33). A *trainId* is the class that the network
predicts (0..18), or 255 for whatever is neither trained nor scored. The table's licence plate has id -1,
which an 8-bit file stores as 255.
"""

import collections

import numpy as np
from cityscapesscripts.helpers.labels import labels as _TABLE

IGNORE = 255
UNKNOWN = -1

Encoding = collections.namedtuple("Encoding", "name table")
Encoding.__doc__ = """What the values of a label file mean.

name (such as 'Cityscapes labelId', for messages) and table, [256] int32: the class of a value, `IGNORE`, or
`-1 - value` for a value that no file should hold.
"""

_TRAINED = sorted((row for row in _TABLE if 0 <= row.trainId < IGNORE), key=lambda row: row.trainId)

TRAIN_IDS = tuple(row.trainId for row in _TRAINED)
CLASS_NAMES = tuple(row.name for row in _TRAINED)
NUM_CLASSES = len(_TRAINED)
COLORS = np.array([row.color for row in _TRAINED], np.uint8)


def _known(pairs):
    """[256] int32: a known value's trainId; `-1 - value` for a value that no file should hold.

    The negative entries carry the value itself, so that one `min` over a mapped label both finds an unknown
    id and says which.
    """
    table = UNKNOWN - np.arange(256, dtype=np.int32)
    for value, train_id in pairs:
        table[value % 256] = train_id if 0 <= train_id < IGNORE else IGNORE
    return table


LABEL_ID_TABLE = _known([(row.id, row.trainId) for row in _TABLE])
TRAIN_ID_TABLE = _known([(i, i) for i in TRAIN_IDS] + [(IGNORE, IGNORE)])
LABEL_ID_FILES = Encoding("Cityscapes labelId", LABEL_ID_TABLE)
TRAIN_ID_FILES = Encoding("Cityscapes trainId", TRAIN_ID_TABLE)

# Known or not, each as a trainId: for drawing and for scoring, where every value must map to something.
label_id_to_train_id = np.where(LABEL_ID_TABLE < 0, IGNORE, LABEL_ID_TABLE).astype(np.uint8)
train_id_to_label_id = np.zeros(256, np.uint8)
for _row in _TRAINED:
    train_id_to_label_id[_row.trainId] = _row.id


def is_known_label_id(values):
    """Bool array of the shape of `values` (integers 0..255): whether the Cityscapes table has these
    labelIds.
    """
    return LABEL_ID_TABLE[np.asarray(values)] >= 0


def colorize(train_ids):
    """The picture of a label: `train_ids` [...] integers 0..255 to [..., 3] uint8 RGB, black where no class
    is trained.
    """
    palette = np.zeros((256, 3), np.uint8)
    palette[:NUM_CLASSES] = COLORS
    return palette[np.asarray(train_ids)]
