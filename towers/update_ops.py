"""The update ops of all towers, one a variable.

A model may put update ops into `tf.GraphKeys.UPDATE_OPS` itself (a plain `tf.layers` batch norm does). The variable such
an op writes is shared, so the ops of N towers would write it N times a step, in no fixed order. What one device would do
is kept: the ops of the first tower that writes the variable.
"""

from absl import logging

from towers import versions

# Ops that only pass a write on: a group, what `assign` returns, both control-flow versions' ends.
_PASS = ("NoOp", "Identity", "IdentityN", "ReadVariableOp", "Merge", "Switch", "Enter", "Exit", "RefIdentity",
         "RefSwitch", "RefMerge", "RefEnter", "RefExit", "Reshape")
_FUNCTIONS = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "PartitionedCall", "StatefulPartitionedCall")
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2")


def one_a_variable(entries_by_tower):
    """Leaves out update ops that write a variable which an earlier tower's update op writes.

    Args:
      entries_by_tower: for each tower, the list of its UPDATE_OPS entries (ops, tensors or what `assign` returns).

    Returns:
      The kept entries of all towers, in tower order; an entry that stands twice is returned once. One warning names the
      variables whose further update ops were left out.
    """
    kept, kept_ops, writer, left_out, twice = [], set(), {}, {}, set()
    for tower, entries in enumerate(entries_by_tower):
        for entry in entries:
            op = as_op(entry)
            if op in kept_ops:
                continue
            names = written_variables(op)
            elsewhere = set(name for name in names if writer.get(name, tower) != tower)
            if names and elsewhere == names:
                left_out.update((name, writer[name]) for name in names)
                continue
            twice |= elsewhere
            for name in names:
                writer.setdefault(name, tower)
            kept.append(entry)
            kept_ops.add(op)
    if left_out:
        logging.warning(
            "Update ops of several towers write one variable; tower %d's are kept, the others left out, so that each is "
            "written once a step: %s. Use towers.sync_bn or towers.layers for statistics over all towers.",
            min(left_out.values()), ", ".join(sorted(left_out)))
    if twice:
        logging.warning(
            "Update ops of several towers write %s together with variables of their own, so all are kept and these are "
            "written more than once a step; give each variable an update op of its own.", ", ".join(sorted(twice)))
    return kept


def wait_for_reads(entries, tower_of):
    """Makes every update op wait until the other towers have read the variable that it writes.

    On one device a model orders its own read and write of a state, by using what it read in what it writes. The reads of
    other towers stand outside of that order, and would see the state of before or of after the update, by chance.

    Args:
      entries: the kept update ops.
      tower_of: from an op to the index of the tower that made it, or None.
    """
    for entry in entries:
        for write in _writes(as_op(entry)):
            handle = write.inputs[0]
            if handle.op.type != "VarHandleOp" or versions.op_control_flow_context(write) is not None:
                continue
            writes = set(op for op in handle.consumers() if op is write or is_write(op))
            reads = [op for op in versions.consumers(handle)
                     if op.type in _READS and tower_of(op) not in (None, tower_of(write))
                     and versions.op_control_flow_context(op) is None
                     and writes.isdisjoint(runs_before(op))]  # it reads what was written; the other order could be a cycle
            if reads:
                versions.add_control_inputs(write, reads)


def runs_before(op):
    """Everything that runs when `op` does, itself included, over data and control inputs: a set of ops."""
    seen, pending = set(), [op]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending.extend(current.control_inputs)
            pending.extend(tensor.op for tensor in current.inputs)
    return seen


def as_op(entry):
    """The op of a collection's entry: of an op, a tensor, or what `assign` on a resource variable returns."""
    return getattr(entry, "op", entry)


def written_variables(op):
    """The names of the variables that running `op` writes, seen through groups, identities and control flow: a set."""
    names = set()
    for write in _writes(op):
        handles = write.inputs if write.type in _FUNCTIONS else write.inputs[:1]
        names.update(name for name in map(_variable_of, handles) if name)
    return names


def _writes(op):
    """The ops that write variables when `op` runs, function calls among them: `op` itself, or what it passes on: a list."""
    writes, seen, pending = [], set(), [op]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.type in _FUNCTIONS or is_write(current):
            if current.inputs:
                writes.append(current)
        elif current.type in _PASS:
            pending.extend(current.control_inputs)
            pending.extend(tensor.op for tensor in current.inputs if tensor.op.type not in _VARIABLES)
    return writes


def is_write(op):
    """Whether `op` writes the variable that is its first input."""
    if not op.inputs or op.type in _PASS:
        return False
    kind = op.type
    return kind.startswith("Assign") or "Scatter" in kind and (kind.startswith("Resource") or _is_ref(op.inputs[0])) \
        or "Apply" in kind and (kind.startswith("Resource") or _is_ref(op.inputs[0])) or kind.startswith("CountUpTo")


def _is_ref(tensor):
    return tensor.dtype._is_ref_dtype


def _variable_of(tensor):
    """The name of the variable whose handle or reference `tensor` is, or None."""
    op, seen = tensor.op, set()
    while op not in seen:
        seen.add(op)
        if op.type in _VARIABLES:
            return op.name
        if op.type in _PASS and op.inputs:
            op = op.inputs[0].op
    return None
