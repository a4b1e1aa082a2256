"""Which towers share the statistics of a synchronised layer: all of them, or groups of consecutive ones.

Towers are counted over all workers, N a worker. With `group_size=k`, towers 0 ... k-1 are a group, k ... 2k-1 the next, and
so on. A group is either within a worker, k divides N, and then no worker waits for another in the layer, forward or
backward; or it is of m = k/N whole workers, whose sums go over these m workers only. For 4 workers of 2 towers:

    k        1             2            4                     8, None
    groups   every tower   a worker's   workers 0 1, 2 3      all
"""

import collections
import numbers

from towers import merging
from towers.tower import current_tower


class Group(collections.namedtuple("Group", "num_local workers")):
    """The group of a tower.

    Attributes:
      num_local: how many towers of each worker are in it.
      workers: the `collectives.Workers` in it, or `collectives.OneWorker`.
    """

    @property
    def is_all(self):
        """Whether it holds all towers."""
        return self.num_local * self.workers.num_workers == current_tower().num_towers


def check(group_size):
    """Refuses what can be no number of towers.

    Raises:
      ValueError.
    """
    if group_size is not None and (isinstance(group_size, bool) or not isinstance(group_size, numbers.Integral)
                                   or group_size < 1):
        raise ValueError("group_size is %r; wanted how many towers share statistics, an integer of at least 1, or None for "
                         "all towers" % (group_size,))


def of(group_size):
    """The current tower's `Group`; all towers where `group_size` is None.

    Raises:
      ValueError: the towers do not divide into such groups, or a group would hold parts of workers.
    """
    num_towers, workers = current_tower().num_towers, merging.workers()
    num_local = num_towers // workers.num_workers
    if group_size is None:
        return Group(num_local, workers)
    if num_towers % group_size:
        raise ValueError("group_size is %d, and there are %d towers; wanted a divisor of that, so that all groups are of one "
                         "size: %s, or None for all towers" % (group_size, num_towers, _divisors(num_towers)))
    if num_local % group_size == 0:
        return Group(group_size, workers.group(1))
    if group_size % num_local:
        raise ValueError("group_size is %d with %d towers on each of %d workers, so that a group would hold parts of workers; "
                         "wanted a divisor of %d (%s) for groups within a worker, or a multiple of it that divides %d"
                         % (group_size, num_local, workers.num_workers, num_local, _divisors(num_local), num_towers))
    return Group(num_local, workers.group(group_size // num_local))


def _divisors(number):
    return ", ".join(str(k) for k in range(1, number + 1) if number % k == 0)
