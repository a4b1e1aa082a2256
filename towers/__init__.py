"""Towers: synchronous multi-GPU training for TensorFlow 1 graphs, with synchronised batch normalisation.

Write the model function as for one device; `build_train_step` runs it once for each tower, under shared variables, and
builds one step that is the step of one big device. The path of a training step through this package: `devices`, `tower`,
`building`, `merging`, `moments` and `batch_norm`, `variables`, `update_ops`, `gradients`, `train_step`, `session`; over
several machines also `cluster` and `collectives`.
"""

from towers import layers, slim
from towers.batch_norm import sync_bn
from towers.building import build
from towers.cluster import Cluster
from towers.devices import session_config, split_batch, tower_devices
from towers.inspection import Inspection, inspect
from towers.merging import all_concat, all_mean, all_sum, merge, weighted_mean
from towers.tower import Tower, TowerError, current_tower
from towers.train_step import TrainStep, build_train_step

__all__ = [
    "Cluster", "Inspection", "Tower", "TowerError", "TrainStep", "all_concat", "all_mean", "all_sum", "build",
    "build_train_step", "current_tower", "inspect", "layers", "merge", "session_config", "slim", "split_batch", "sync_bn",
    "tower_devices", "weighted_mean",
]
