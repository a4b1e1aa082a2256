"""Reads a graph, just built or restored from a file: its towers, what synchronises them, and what is wrong with it.

A training step is everything a train op (`tf.GraphKeys.TRAIN_OP`, where `apply_gradients` puts it) runs. In it,
`inspect` looks for the faults that data-parallel graphs are known for:

- a variable written more than once in a step;
- an update op that no train op runs, or that an apply op does not wait for;
- a variable named after a tower, which no other number of towers can restore;
- more backward than forward convolutions, the mark of a backward pass that walks through other towers again.

It also counts what the step sends: bytes between devices, and the sums over workers by what they are for. The bytes of a
sum are those of the tensor that every worker puts in; what passes a worker's link is up to twice as much, by the algorithm
(a ring of W workers: 2 (W - 1) / W times).
"""

import collections
import re

import tensorflow.compat.v1 as tf

from towers import collectives as over_workers
from towers import update_ops

_TOWER = re.compile(r"^(?:gradients(?:_\d+)?/)?((?:.*/)?)tower_(\d+)/")
_BACKWARD = ("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter")
_FORWARD = ("Conv2D", "DepthwiseConv2dNative")

TowerInfo = collections.namedtuple("TowerInfo", "scope index devices num_ops")
CollectiveInfo = collections.namedtuple("CollectiveInfo", "kind workers number bytes unknown")
UpdateInfo = collections.namedtuple("UpdateInfo", "name variables")


class Inspection(object):
    """What `inspect` returns; `str` of it is a table.

    Attributes:
      towers: a list of `TowerInfo` (scope of the build, index, device strings, number of ops).
      sync_layers: names of the synchronised batch norm layers.
      update_ops: a list of `UpdateInfo` (op name, names of the variables it writes).
      written_more_than_once: a dict from variable name to the names of the ops that write it in one step.
      bytes_across_devices: bytes a step that pass from one device to another, for tensors of known shape.
      unknown_across_devices: how many tensors that cross devices have a shape unknown before the graph runs.
      collectives: a list of `CollectiveInfo`, the sums over workers in a step by kind ('sync BN forward', 'sync BN
        backward', 'moving statistics', 'gradients', 'other') and by the number of workers that take part: how many, bytes
        that each worker puts in for tensors of known shape, and how many tensors have a shape unknown before the graph runs.
      problems: what is wrong, one line each.
    """

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __str__(self):
        lines = ["%-24s %s" % ("%stower_%d" % (tower.scope, tower.index), "%s, %d ops" % (
            " ".join(tower.devices) or "(no device)", tower.num_ops)) for tower in self.towers]
        lines.append("%-24s %d" % ("sync layers", len(self.sync_layers)))
        lines += ["  " + name for name in self.sync_layers]
        lines.append("%-24s %d" % ("update ops", len(self.update_ops)))
        lines += ["  %s writes %s" % (op.name, ", ".join(op.variables) or "no variable") for op in self.update_ops]
        more = " and %d tensors of unknown size" % self.unknown_across_devices if self.unknown_across_devices else ""
        lines.append("%-24s %s bytes a step%s" % ("across devices", format(self.bytes_across_devices, ","), more))
        lines.append("%-24s %s" % ("sums over workers", sum(kind.number for kind in self.collectives) or "none"))
        lines += ["  %-22s %d of %d workers, %s bytes a step%s" % (
            kind.kind, kind.number, kind.workers, format(kind.bytes, ","),
            " and %d tensors of unknown size" % kind.unknown if kind.unknown else "") for kind in self.collectives]
        lines.append("%-24s %d" % ("written more than once", len(self.written_more_than_once)))
        lines += ["  %s by %s" % (name, ", ".join(ops)) for name, ops in sorted(self.written_more_than_once.items())]
        lines.append("%-24s %s" % ("problems", len(self.problems) or "none"))
        return "\n".join(lines + ["  " + problem for problem in self.problems])


def inspect(graph=None):
    """Reads `graph` (the default one where None): an `Inspection`."""
    graph = graph or tf.get_default_graph()
    ops = graph.get_operations()
    updates = [update_ops.as_op(entry) for entry in graph.get_collection(tf.GraphKeys.UPDATE_OPS)]
    train_ops = [update_ops.as_op(entry) for entry in graph.get_collection(tf.GraphKeys.TRAIN_OP)]
    steps = [update_ops.runs_before(op) for op in train_ops]
    twice = {}
    for step in steps:
        twice.update(_written_twice(step))
    step_ops = set().union(*steps) if steps else set(ops)
    crossing, unknown = _crossing(step_ops)
    problems = ["variable %s is written %d times in one step: by %s" % (name, len(by), ", ".join(by))
                for name, by in sorted(twice.items())]
    if train_ops:
        problems += _unawaited(ops, updates, steps)
    problems += ["variable %s is named after a tower; another number of towers cannot restore it" % variable.op.name
                 for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) if _TOWER.match(variable.op.name + "/")]
    problems += _walked_again(steps)
    return Inspection(
        towers=_towers(ops), sync_layers=_sync_layers(ops),
        update_ops=[UpdateInfo(op.name, sorted(update_ops.written_variables(op))) for op in updates],
        written_more_than_once=twice, bytes_across_devices=crossing, unknown_across_devices=unknown,
        collectives=_collectives(step_ops), problems=problems)


def _towers(ops):
    """The towers, by the name scopes of their forward ops."""
    found = collections.OrderedDict()
    for op in ops:
        match = _TOWER.match(op.name)
        if match and not op.name.startswith("gradients"):
            entry = found.setdefault((match.group(1), int(match.group(2))), [collections.Counter(), 0])
            entry[0][op.device] += bool(op.device)
            entry[1] += 1
    return [TowerInfo(scope, index, [device for device, _ in devices.most_common() if device], number)
            for (scope, index), (devices, number) in sorted(found.items())]


def _sync_layers(ops):
    """Names of the layers whose statistics are combined over towers: the ops that carry their gradient."""
    names = []
    for op in ops:
        if op.type == "IdentityN" and _attribute(op, "_gradient_op_type") == b"TowersMoments" and "/merge/" in "/" + op.name:
            names.append(("/" + op.name).rsplit("/merge/", 1)[1].rsplit("/", 1)[0])
    return list(collections.OrderedDict.fromkeys(names))  # a layer has an op for each of its groups of towers


def _collectives(step):
    """The sums over workers by kind and number of workers."""
    found = {}
    for op in step:
        if op.type == "CollectiveReduce" and _attribute(op, over_workers.KIND) != b"":
            size = op.inputs[0].shape.num_elements()
            key = (_attribute(op, over_workers.KIND) or b"other").decode(), op.get_attr("group_size")
            before = found.get(key, CollectiveInfo(key[0], key[1], 0, 0, 0))
            found[key] = before._replace(
                number=before.number + 1, bytes=before.bytes + (size or 0) * op.inputs[0].dtype.size,
                unknown=before.unknown + (size is None))
    return [found[key] for key in sorted(found)]


def _attribute(op, name):
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def _written_twice(step):
    writers = collections.defaultdict(set)
    for op in step:
        if update_ops.is_write(op):
            for name in update_ops.written_variables(op):
                writers[name].add(op.name)
    return {name: sorted(names) for name, names in writers.items() if len(names) > 1}


def _unawaited(ops, updates, steps):
    """Update ops that no step runs, or that an apply op of the same step does not wait for."""
    ran = set().union(*steps)
    problems = ["update op %s is run by no train op" % op.name for op in updates if op not in ran]
    bits = {op: 1 << i for i, op in enumerate(updates)}
    waits = _awaited(ops, bits)
    for step in steps:
        due = sum(bits[op] for op in updates if op in step)
        for op in step:
            if "Apply" in op.type and update_ops.is_write(op) and due & ~waits[op]:
                missing = [update.name for update in updates if bits[update] & due & ~waits[op]]
                problems.append("%s does not wait for %d update op(s), the first is %s"
                                % (op.name, len(missing), missing[0]))
    return problems


def _awaited(ops, bits):
    """For every op, the bits of the ops among `bits` that run before it."""
    waits = {}
    for op in ops:  # made before whatever they feed, but for the back edges of loops
        mask = bits.get(op, 0)
        for source in list(op.control_inputs) + [tensor.op for tensor in op.inputs]:
            mask |= waits.get(source, 0)
        waits[op] = mask
    return waits


def _walked_again(steps):
    problems = []
    for step in steps:
        backward = sum(op.type in _BACKWARD for op in step)
        forward = sum(op.type in _FORWARD for op in step)
        if backward > forward:
            problems.append("%d backward for %d forward convolutions: a tower's backward pass walks through others"
                            % (backward, forward))
    return problems


def _crossing(step):
    """Bytes, and tensors of unknown size, that pass between the devices on which ops are placed."""
    total, unknown, seen = 0, 0, set()
    for op in step:
        target = _device(op)
        for tensor in op.inputs:
            source = _device(tensor.op)
            if tensor.dtype == tf.resource or not source or not target or source == target:
                continue
            if (tensor.name, target) in seen:
                continue
            seen.add((tensor.name, target))
            size = tensor.shape.num_elements()
            if size is None:
                unknown += 1
            else:
                total += size * tensor.dtype.size
    return total, unknown


def _device(op):
    """Where an op runs: with the variable whose handle it takes, else where it was placed."""
    for tensor in op.inputs:
        if tensor.dtype == tf.resource:
            return tensor.op.device
    return op.device
