"""The label table against cityscapesscripts and against the list printed in the recipe."""

import numpy as np
from cityscapesscripts.helpers import labels as official

from inputs import labels

RECIPE = {
    7: 0,
    8: 1,
    11: 2,
    12: 3,
    13: 4,
    17: 5,
    19: 6,
    20: 7,
    21: 8,
    22: 9,
    23: 10,
    24: 11,
    25: 12,
    26: 13,
    27: 14,
    28: 15,
    31: 16,
    32: 17,
    33: 18,
}


def test_label_ids_map_as_the_recipe_lists_them():
    for value in range(256):
        assert labels.label_id_to_train_id[value] == RECIPE.get(value, 255)


def test_every_train_id_has_the_official_name_color_and_label_id():
    assert labels.TRAIN_IDS == tuple(range(19))
    for train_id in labels.TRAIN_IDS:
        row = official.trainId2label[train_id]
        assert labels.CLASS_NAMES[train_id] == row.name
        assert tuple(labels.COLORS[train_id]) == row.color
        assert labels.train_id_to_label_id[train_id] == row.id
    assert labels.COLORS.dtype == np.uint8 and labels.COLORS.shape == (19, 3)


def test_an_ignored_pixel_maps_to_unlabeled_for_the_official_scorer():
    assert labels.train_id_to_label_id[255] == official.name2label["unlabeled"].id


def test_known_ids_are_those_of_the_table_and_255_for_the_licence_plate():
    known = {row.id for row in official.labels if row.id >= 0} | {255}
    assert set(np.flatnonzero(labels.is_known_label_id(np.arange(256)))) == known


def test_an_unknown_value_can_be_read_back_from_the_mapped_one():
    for value in (34, 100, 254):
        assert -1 - labels.LABEL_ID_TABLE[value] == value
    for value in (19, 33, 254):
        assert -1 - labels.TRAIN_ID_TABLE[value] == value


def test_colorize_paints_classes_in_official_colors_and_the_rest_black():
    picture = labels.colorize(np.array([[0, 13], [255, 40]]))
    np.testing.assert_array_equal(picture, [[(128, 64, 128), (0, 0, 142)], [(0, 0, 0), (0, 0, 0)]])
