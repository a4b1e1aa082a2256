"""What a tower's thread takes over from the caller of `build`, and what is swapped when another tower runs.

TensorFlow keeps the context of graph building in three places, and each wants its own treatment:

- per thread (name scope, variable scope, device, colocation, control dependencies, variable creators, default graph and
  session, context variables): captured in the caller's thread, entered once in each tower's thread;
- per graph, though a `with` block changes it (gradient overrides, kernel labels, attribute scopes, and the collections
  LOSSES, UPDATE_OPS and SUMMARIES, which towers must not see of each other; REGULARIZATION_LOSSES, see below) and
- per process (slim's arg-scope stack): saved and put back whenever the running tower changes.

REGULARIZATION_LOSSES belong to the shared variables: those made with the variables in tower 0 count in every tower. What a
model adds by itself in every tower (`tf.add_to_collection` with a weight's norm, an activity regulariser) stands in each
tower once, in place of tower 0's.

Other process-wide state (the Keras learning phase, mixed-precision policies) is not swapped.
"""

import contextlib
import contextvars

import tensorflow.compat.v1 as tf

from towers import versions

TOWER_COLLECTIONS = (tf.GraphKeys.LOSSES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES)


class CallerContext(object):
    """The per-thread context of the thread that calls `build`."""

    def __init__(self, graph):
        self.graph = graph
        self.name_scope = versions.name_scope(graph)
        self._stacks = versions.capture_thread_stacks(graph)
        self._variable_scope = tf.get_variable_scope()
        self._scope_counts = dict(versions.variable_scope_counts())
        self._session = tf.get_default_session()

    def new_context_variables(self):
        """A copy of the caller's context variables, for one tower."""
        return contextvars.copy_context()

    @contextlib.contextmanager
    def entered(self, name_scope, reuse, custom_getter, variable_creator, device):
        """In a tower's thread: the caller's context, and inside it the tower's own scopes.

        Args:
          name_scope: the tower's absolute name scope, ending in '/'.
          reuse: `True` where variables must exist; `None` takes the caller's.
          custom_getter: a custom getter of the variable scope, called before the caller's.
          variable_creator: a variable creator, called before the caller's.
          device: a device function, applied before the caller's.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.graph.as_default())
            versions.restore_thread_stacks(self.graph, self._stacks)
            versions.set_variable_scope_counts(self._scope_counts)
            if self._session is not None:
                stack.enter_context(self._session.as_default())
            stack.enter_context(tf.name_scope(name_scope))
            stack.enter_context(tf.variable_scope(
                self._variable_scope, reuse=reuse, custom_getter=custom_getter, use_resource=True,
                constraint=self._variable_scope.constraint, auxiliary_name_scope=False))
            stack.enter_context(tf.variable_creator_scope(variable_creator))
            stack.enter_context(tf.device(device))
            yield


class SharedState(object):
    """A copy of the state that towers would otherwise see of each other."""

    def __init__(self, graph):
        """Copies what is in force now."""
        self._graph = graph
        self.collections = {key: list(graph.get_collection_ref(key)) for key in TOWER_COLLECTIONS}
        self._maps = versions.capture_graph_maps(graph)
        self._arg_scopes = [(stack, list(stack)) for stack in versions.arg_scope_stacks()]

    def without_collections(self):
        """The same state with empty collections: what a tower starts from."""
        fresh = SharedState(self._graph)
        fresh._maps = self._maps
        fresh._arg_scopes = self._arg_scopes
        fresh.collections = {key: [] for key in TOWER_COLLECTIONS}
        return fresh

    def install(self):
        """Puts this state in force."""
        for key, entries in self.collections.items():
            self._graph.get_collection_ref(key)[:] = entries
        versions.restore_graph_maps(self._graph, self._maps)
        known = [stack for stack, _ in self._arg_scopes]
        for stack, entries in self._arg_scopes:
            stack[:] = entries
        for stack in versions.arg_scope_stacks():
            if not any(stack is other for other in known):  # slim was imported by a model function
                del stack[1:]


class RegularizationLosses(object):
    """REGULARIZATION_LOSSES as one tower sees them, kept over its pauses."""

    def __init__(self, graph, scopes, tower):
        """`scopes` are the towers' name scopes, ending in '/'; `tower` says whose view this is."""
        self._graph, self._scopes, self._tower = graph, scopes, tower
        self._own = []

    @contextlib.contextmanager
    def in_force(self, before, first):
        """While the tower runs: the entries of `before` the build, those that tower 0 (`first`) added, and its own."""
        key = tf.GraphKeys.REGULARIZATION_LOSSES
        if self._tower == 0:
            shared = []
        else:
            added = set(self._name(entry) for entry in self._own) - {None}
            shared = [entry for entry in first._own if self._name(entry) not in added]
        entries = _Replacing(before + shared + self._own, self._name)
        length = len(entries) - len(self._own)
        replaced = versions.replace_collection(self._graph, key, entries)
        try:
            yield
        finally:
            self._own = entries[length - entries.removed:]
            versions.replace_collection(self._graph, key, replaced)

    def after_build(self):
        """What the build adds to the collection: tower 0's entries."""
        return list(self._own)

    def _name(self, entry):
        """An entry's name within its tower, or None for what was made outside of the towers' scopes."""
        name = getattr(entry, "name", None) or ""
        for scope in self._scopes:
            if name.startswith(scope):
                return name[len(scope):]
        return None


class _Replacing(list):
    """A list in which an appended entry takes the place of the one of its name from another tower."""

    def __init__(self, entries, name):
        super(_Replacing, self).__init__(entries)
        self._name, self.removed = name, 0

    def append(self, entry):
        name = self._name(entry)
        kept = [other for other in self if name is None or self._name(other) != name]
        self.removed += len(self) - len(kept)
        self[:] = kept
        super(_Replacing, self).append(entry)
