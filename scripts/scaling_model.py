"""Step time on W workers, on paper: a latency/bandwidth model of the sums that a training step makes over workers.

A message of B bytes takes α + B/β seconds. A sum of B bytes over p workers takes

    ring        2 (p-1) α + 2 (p-1)/p · B/β                 every worker sends to the next, in p parts; adds, then hands on
    halving     2 ⌈log₂ p⌉ α + 2 (p-1)/p · B/β              with partners at distance p/2, p/4, ...; then back
    tree        2 ⌈log₂ p⌉ (α + B/β)                        to a root and back

(Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.) A step of a
synchronised network makes, one after another and with nothing beside them,

    a sum a layer forward and one backward, over the workers of a group      (all workers, where there are no groups)
    one sum of the moving statistics over all workers                        (where there are groups of workers)
    the loss and other small sums, and the gradients in buckets              over all workers

    T(W) = compute + Σ sums + stragglers

Every sum also waits for the slowest. Let the compute time of a step vary by σ, normally and independently in each of the n
parts between its n sums of layers, forward and backward, which vary by σ/√n then. With m(p) the expected largest of p
standard normal numbers, a step that waits once loses σ m(W), and one that waits n times √n σ m(W); in groups of p,
√n σ m(p) + σ m(W/p), the last somewhat too much. Machines that are slow all the time are another matter.
"""

import collections
import math

import numpy as np

Fabric = collections.namedtuple("Fabric", "name latency bandwidth algorithms")
Fabric.__doc__ = """A way from worker to worker: α in seconds a message, β in bytes a second, and the names of the algorithms
from which the fastest is taken."""

Traffic = collections.namedtuple("Traffic", "forward backward gradients other")
Traffic.__doc__ = """Sums over workers in a step, each (number of collectives, bytes that a worker puts into all of them)."""

Step = collections.namedtuple("Step", "workers group compute layers state gradients stragglers")
Step.__doc__ = """Seconds of a step on so many workers, in groups of so many: computing, the sums of the synchronised layers,
those of the moving statistics, of the gradients and all else, and waiting for the slowest."""


def ring(p, size, fabric):
    """Seconds of a sum of `size` bytes over `p` workers."""
    return 2 * (p - 1) * fabric.latency + 2 * (p - 1) / p * size / fabric.bandwidth


def halving(p, size, fabric):
    """As `ring`."""
    return 2 * _rounds(p) * fabric.latency + 2 * (p - 1) / p * size / fabric.bandwidth


def tree(p, size, fabric):
    """As `ring`."""
    return 2 * _rounds(p) * (fabric.latency + size / fabric.bandwidth)


ALGORITHMS = {"ring": ring, "halving": halving, "tree": tree}


def sums(p, number_and_bytes, fabric):
    """Seconds of a number of sums over `p` workers, one after another, of one size each."""
    number, size = number_and_bytes
    if p == 1 or not number:
        return 0.0
    return number * min(ALGORITHMS[name](p, size / number, fabric) for name in fabric.algorithms)


def step(workers, group, traffic, fabric, compute, deviation=0.0):
    """The `Step` of `workers` workers, synchronised in groups of `group` of them.

    Args:
        workers: W.
        group: the workers of a group, a divisor of W; W for one group.
        traffic: the `Traffic` of a step with one group.
        fabric: a `Fabric`.
        compute: seconds of a step on one worker.
        deviation: standard deviation of `compute` from step to step and worker to worker, in seconds.
    """
    layers = traffic.forward[0]
    state = (1, traffic.forward[1] + 8 * layers) if group < workers else (0, 0)  # one more number a layer, of 8 bytes
    if group == 1:
        waiting = largest_of(workers)
    else:
        waits = max(1, layers + traffic.backward[0])
        waiting = math.sqrt(waits) * largest_of(group) + largest_of(workers // group)
    return Step(
        workers, group, compute, sums(group, traffic.forward, fabric) + sums(group, traffic.backward, fabric),
        sums(workers, state, fabric), sums(workers, traffic.gradients, fabric) + sums(workers, traffic.other, fabric),
        deviation * waiting)


def seconds(found):
    """The whole of a `Step`."""
    return sum(found[2:])


def largest_of(p):
    """The expected largest of `p` independent standard normal numbers: ∫ (1 - F(x)^p) over x > 0 - ∫ F(x)^p over x < 0."""
    if p == 1:
        return 0.0
    x = np.arange(-12, 12, 0.01) + 0.005
    power = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x]) ** p
    return float(0.01 * np.sum(np.where(x > 0, 1 - power, -power)))


def limit(share, largest, choose):
    """The first power of two up to `largest` for which `choose(W)`, a `Step`, has more than a share in its layers; or None."""
    w = 1
    while w <= largest:
        found = choose(w)
        if found.layers > share * seconds(found):
            return w
        w *= 2
    return None


def _rounds(p):
    return math.ceil(math.log2(p))
