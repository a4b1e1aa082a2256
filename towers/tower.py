"""A tower: one copy of the model, on one device, and what its layers may know of it."""

import threading

import tensorflow.compat.v1 as tf

from towers import versions


class Tower(object):
    """What `current_tower()` returns.

    Attributes:
      index: which tower this is, from 0; over all workers of a cluster.
      num_towers: how many towers share the model; over all workers of a cluster.
      device: the device string of this tower; '' outside a build.
      training: whether the build is for training (the default of `training=None` in the layers).
      is_main: whether this is tower 0 (of the chief, in a cluster): the one for what a run does once.
      step_is_valid: a scalar bool tensor where steps can be skipped (float16), else None: write no state where it is false.
      keeps_state: whether this is the first tower of its worker, which writes the shared variables of that worker: where
        a layer makes the update ops of a state of its own. Without a cluster the same as `is_main`.
    """

    def __init__(self, index=0, num_towers=1, device="", training=False, build=None, local_index=None):
        self.index = index
        self.local_index = index if local_index is None else local_index  # among the towers of its worker
        self.num_towers = num_towers
        self.device = device
        self.training = training
        self.is_main = index == 0
        self.keeps_state = self.local_index == 0
        self.step_is_valid = getattr(build, "step_is_valid", None)
        self._build = build
        self._layers = {}

    def unique_layer(self, name):
        """`name` with a number that tells layers of one name apart, the same on every tower."""
        if self._build is None:
            return "%s %s" % (name, versions.name_scope(tf.get_default_graph()))
        self._layers[name] = self._layers.get(name, -1) + 1
        return "%s %d" % (name, self._layers[name])

    def __repr__(self):
        return "Tower(index=%d, num_towers=%d, device=%r, training=%r)" % (
            self.index, self.num_towers, self.device, self.training)


_active = threading.local()
_OUTSIDE = Tower()


def current_tower():
    """The `Tower` whose model function is running; outside a build, a tower 0 of 1 that is not training."""
    return getattr(_active, "tower", _OUTSIDE)


def set_current_tower(tower):
    """Makes `tower` the calling thread's current one."""
    _active.tower = tower


class TowerError(ValueError):
    """Towers that cannot be built into one step; the message names the towers, the layers or the variable."""
