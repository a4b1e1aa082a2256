"""Builds the towers: one run of the model function a tower, each in a thread of its own, one thread at a time.

A layer that needs all towers pauses its tower (see `merging`). When every tower has paused at that layer, tower 0 runs
the merge function over all towers' tensors, on the aggregation device, and all go on in tower order:

    tower 0   ....pause          merge, ....pause          merge, ....return
    tower 1             ....pause                ....pause                  ....return

So the order in which ops are made is fixed, and what a tower made is known by when it was made.
"""

import bisect
import contextlib
import threading

import tensorflow.compat.v1 as tf

from towers import collectives, context, precision, update_ops, variables, versions
from towers.cluster import Cluster
from towers.tower import Tower, TowerError, current_tower, set_current_tower


def build(model_fn, tower_inputs, devices, aggregation_device="/cpu:0", training=False, cluster=None):
    """Runs `model_fn` once for each tower and returns the results.

    Args:
      model_fn: called as `model_fn(*inputs)` where a tower's inputs are a tuple or list, `model_fn(**inputs)` where they
        are a dict, `model_fn(inputs)` where they are one tensor. Written as for one device.
      tower_inputs: one entry a tower (from `split_batch`).
      devices: one device string a tower (from `tower_devices`).
      aggregation_device: where merges run and variables live.
      training: what `current_tower().training` is, the default of the layers' `training`.
      cluster: a `Cluster` over all of whose workers `all_sum` and its kin, `sync_bn` and `weighted_mean` reach; `merge`
        stays within this worker. None: this process alone.

    Returns:
      The results of the model function, in tower order: a list.

    Raises:
      ValueError: not in graph mode, inside control flow, `tf.function` or another tower, or `tower_inputs` and `devices`
        do not match.
      TowerError: towers meet different layers, or a tower above 0 would create a variable.
      Whatever `model_fn` raises, with its own traceback.
    """
    return Build(model_fn, tower_inputs, devices, aggregation_device, training, cluster).results


class TowerAborted(BaseException):
    """Unwinds the thread of a tower whose build failed elsewhere; no user code should catch it."""


class Build(object):
    """One build, run by the constructor.

    Attributes:
      results: what the model function returned, a list in tower order.
      workers: the `Workers` of the cluster, or `OneWorker`.
      num_towers: how many towers there are, over all workers.
      update_ops: the kept update ops of all towers, one a variable.
      global_step: the step that keys dropout masks, or None.
    """

    def __init__(self, model_fn, tower_inputs, devices, aggregation_device="/cpu:0", training=False, cluster=None,
                 global_step=None, half=None, step_is_valid=None):
        self.graph = tf.get_default_graph()
        self.devices = list(devices)
        self.aggregation_device = aggregation_device
        tower_inputs = list(tower_inputs)
        _check_arguments(model_fn, tower_inputs, self.devices, aggregation_device, cluster)
        _check_place(self.graph)
        self.workers = collectives.of(cluster, aggregation_device)
        self.num_towers = self.workers.num_workers * len(self.devices)
        self.half = half  # the type of towers' activations where it is not that of the variables
        self.step_is_valid = step_is_valid
        if half is not None:
            tower_inputs = precision.cast_inputs(tower_inputs, half)
        self._batches = [_first_batch(inputs) for inputs in tower_inputs]
        self.global_step = global_step
        if global_step is None and training:
            self.global_step = tf.train.get_global_step(self.graph)
        self._sums_at_end = []
        self.shared = {}  # what layers of several towers share without a merge, by layer name
        self.first_op = self.graph.version
        self._windows = []  # (first op's number - 1, last op's number, tower)
        self._window_start = 0
        self._control = threading.Semaphore(0)
        self._merging = False
        self.aborted = False
        caller = context.CallerContext(self.graph)
        before = context.SharedState(self.graph)
        prefix = _unused_scope(caller.name_scope)
        self.scope = prefix
        self._regularization_before = list(self.graph.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES))
        self._towers = []
        for index, device in enumerate(self.devices):
            first = self.workers.index * len(self.devices)
            tower = Tower(first + index, self.num_towers, device, training, build=self, local_index=index)
            self._towers.append(
                _TowerThread(self, tower, caller, prefix, model_fn, tower_inputs[index], before.without_collections()))
        self._run(before)
        self.results = [thread.result for thread in self._towers]
        self._first_id = versions.first_op_id(self.graph)
        update_ops.wait_for_reads(self.update_ops, self.tower_of)

    def tower_of(self, op):
        """The index of the tower that made `op`, or None for an op made elsewhere (merge functions included)."""
        if op.graph is not self.graph:
            return None
        number = versions.op_id(op) - self._first_id + 1
        place = bisect.bisect_left(self._windows, (number,)) - 1
        if place >= 0 and self._windows[place][0] < number <= self._windows[place][1]:
            return self._windows[place][2]
        return None

    def examples_before(self):
        """How many examples the workers before this one hold: a scalar int32 tensor, or 0 for the first."""
        if self.workers.num_workers == 1:
            return 0
        if "examples" not in self.shared:
            index, num_workers = self.workers.index, self.workers.num_workers
            with tf.init_scope(), tf.name_scope("examples_before"), tf.device(self.aggregation_device or ""):
                own = tf.add_n([tf.convert_to_tensor(size) for size in self.batch_sizes()])
                sizes = self.workers.sum(tf.pad(own[tf.newaxis], [[index, num_workers - 1 - index]]))
                self.shared["examples"] = tf.reduce_sum(sizes[:index])
        return self.shared["examples"]

    def batch_sizes(self):
        """Per tower, the first dimension of its first input: an int, a scalar int32 tensor, or None without an input."""
        sizes = []
        for batch in self._batches:
            known = batch.shape.as_list()[0] if batch is not None and batch.shape.ndims else None
            sizes.append(known if known is not None or batch is None else tf.shape(batch)[0])
        return sizes

    def merge(self, tower, kind, fn, tensors):
        """Pauses `tower` until all towers have arrived; returns what `fn` gives this one."""
        thread = self._towers[tower.local_index]
        if self.aborted:
            raise TowerAborted()
        if tf.get_default_graph() is not self.graph or versions.control_flow_context(self.graph) is not None:
            raise TowerError("%s of tower %d is inside tf.cond, tf.while_loop, a tf.function or another graph; a layer "
                             "that needs all towers must stand outside" % (thread.layer(kind), tower.index))
        if self._merging:
            raise TowerError("%s stands inside a merge function, which runs once for all towers; reduce the lists that the "
                             "function is given instead" % thread.layer(kind))
        thread.request = _Request(kind, fn, tensors, thread.position(), thread.layer(kind))
        thread.pause()
        if tower.local_index == 0:
            self._merge_all(fn)
        thread.request = None
        return self._merged[tower.local_index]

    def sum_at_end(self, tensor, then):
        """See `merging.sum_at_end`."""
        self._sums_at_end.append((tensor, then))

    def finish(self):
        """In tower 0's thread, when its model function has returned: the sums that waited for that."""
        if not self._sums_at_end:
            return
        tensors, then = zip(*self._sums_at_end)
        with tf.name_scope("/".join(part for part in (self.scope.rstrip("/"), "merge", "at_end") if part) + "/"), \
                tf.device(self.aggregation_device or ""):
            totals = self.workers.sums(tensors, "moving statistics")
        for call, total in zip(then, totals):
            call(total)

    def _merge_all(self, fn):
        """In tower 0's thread: runs the merge function over all towers' tensors, on the aggregation device."""
        requests = [thread.request for thread in self._towers]
        self._close_window(0)
        self._merging = True
        scope = "/".join(part for part in (self.scope.rstrip("/"), "merge", requests[0].name_scope) if part)
        with tf.name_scope(scope + "/"), tf.device(self.aggregation_device or ""):
            merged = fn(*[list(tensors) for tensors in zip(*[request.tensors for request in requests])])
        self._merging = False
        self._window_start = self.graph.version
        if type(merged) is not list:
            merged = [merged] * len(requests)
        elif len(merged) != len(requests):
            raise TowerError("the merge function of %s returned a list of %d; wanted one entry for each of the %d towers "
                             "(a tuple, dict or tensor goes whole to every tower)"
                             % (requests[0].layer, len(merged), len(requests)))
        self._merged = merged

    def _run(self, before):
        """Runs all towers to their end, one at a time, or raises what stopped one, with no thread left."""
        after = None
        try:
            for thread in self._towers:
                thread.start()
            while True:
                for thread in self._towers:
                    self._resume(thread, before)
                waiting = [thread for thread in self._towers if thread.request is not None]
                if not waiting:
                    break
                _check_same_layer(self._towers)
            after = self._collections(before)
        finally:
            self.aborted = True
            for thread in self._towers:
                thread.abort()
            before.install()
        after[tf.GraphKeys.REGULARIZATION_LOSSES] = (
            self._regularization_before + self._towers[0].regularization.after_build())
        for key, entries in after.items():
            self.graph.get_collection_ref(key)[:] = entries

    def _resume(self, thread, before):
        """Lets one tower run until it pauses, returns or raises."""
        thread.state.install()
        self._window_start = self.graph.version
        try:
            with thread.regularization.in_force(self._regularization_before, self._towers[0].regularization):
                thread.wake.release()
                self._control.acquire()
        finally:
            self._close_window(thread.tower.local_index)
            thread.state = context.SharedState(self.graph)
            before.install()
        if thread.error is not None:
            error, thread.error = thread.error, None
            raise error

    def _close_window(self, index):
        if self.graph.version > self._window_start:
            self._windows.append((self._window_start, self.graph.version, index))

    def _collections(self, before):
        """The collections after the build: losses of all towers, update ops one a variable, tower 0's summaries."""
        towers = [thread.state.collections for thread in self._towers]
        losses, updates, summaries = context.TOWER_COLLECTIONS
        self.update_ops = update_ops.one_a_variable([tower[updates] for tower in towers])
        added = {
            losses: [entry for tower in towers for entry in tower[losses]],
            updates: self.update_ops,
            summaries: towers[0][summaries],
        }
        return {key: before.collections[key] + added[key] for key in added}


class _Request(object):
    """A tower's arrival at a merge."""

    def __init__(self, kind, fn, tensors, position, layer):
        self.kind, self.fn, self.tensors, self.layer = kind, fn, tensors, layer
        self.variable_scope, self.name_scope = position

    def meets(self, other):
        """Whether two towers wait in the same layer."""
        same_scope = None in (self.name_scope, other.name_scope) or self.name_scope == other.name_scope
        return (self.kind == other.kind and self.variable_scope == other.variable_scope and same_scope
                and len(self.tensors) == len(other.tensors)
                and [t.dtype for t in self.tensors] == [t.dtype for t in other.tensors])


class _TowerThread(object):
    """A tower and the thread that runs its model function."""

    def __init__(self, build_, tower, caller, prefix, model_fn, inputs, state):
        self.tower, self.state = tower, state
        self.result = self.error = self.request = None
        self.wake = threading.Semaphore(0)
        self._build, self._caller, self._model_fn, self._inputs = build_, caller, model_fn, inputs
        scopes = ["%stower_%d/" % (prefix, index) for index in range(len(build_.devices))]
        self._scope = scopes[tower.local_index]
        self.regularization = context.RegularizationLosses(build_.graph, scopes, tower.local_index)
        self._placing_variables = False
        self._done = False
        self._thread = threading.Thread(target=caller.new_context_variables().run, args=(self._body,),
                                        name="tower_%d" % tower.local_index)
        self._thread.daemon = True

    def start(self):
        self._thread.start()

    def pause(self):
        """In the tower's thread: hands control back and waits for it."""
        self._build._control.release()
        self.wake.acquire()
        if self._build.aborted:
            raise TowerAborted()

    def abort(self):
        """Ends the thread, wherever it waits."""
        if self._thread.is_alive():
            self.wake.release()
            self._thread.join()

    def position(self):
        """Where the tower is: its variable scope, and its name scope relative to the tower (None outside of that)."""
        scope = versions.name_scope(self._build.graph) + "/"
        inside = scope.startswith(self._scope)
        return tf.get_variable_scope().name, scope[len(self._scope):].rstrip("/") if inside else None

    def layer(self, kind):
        """The layer as an error message names it."""
        variable_scope, name_scope = self.position()
        return "layer %r (%s)" % (name_scope or variable_scope or "(top of the model)", kind)

    def _body(self):
        self.wake.acquire()
        try:
            if self._build.aborted:
                return
            set_current_tower(self.tower)
            kept_scope = self._caller.name_scope + "/" if self._caller.name_scope else ""
            creator = variables.variable_creator(
                self.tower, (self._scope, kept_scope), self._variable_placement, self._build.first_op)
            with self._caller.entered(self._scope, True if self.tower.local_index else None,
                                      variables.custom_getter(self.tower, self._build.half), creator, self._place()):
                self.result = self._call()
                if not self.tower.local_index:
                    self._build.finish()
        except TowerAborted:
            pass
        except BaseException as error:  # pylint: disable=broad-except  # raised again in the caller's thread
            self.error = error
        finally:
            self._done = True
            self.request = None
            self._model_fn = self._inputs = None
            self._build._control.release()

    def _call(self):
        if isinstance(self._inputs, dict):
            return self._model_fn(**self._inputs)
        if isinstance(self._inputs, (tuple, list)):
            return self._model_fn(*self._inputs)
        return self._model_fn(self._inputs)

    @contextlib.contextmanager
    def _variable_placement(self):
        """Ops made inside go where variables live instead of to the tower's device."""
        before, self._placing_variables = self._placing_variables, True
        try:
            yield
        finally:
            self._placing_variables = before

    def _place(self):
        """The tower's device function. What the model's own device scopes set is kept; the caller's come after it."""
        specs = [tf.DeviceSpec.from_string(device or "") for device in (self.tower.device, self._build.aggregation_device)]
        merged = {}

        def place(op):
            key = self._placing_variables, op.device
            if key not in merged:
                merged[key] = specs[key[0]].make_merged_spec(tf.DeviceSpec.from_string(op.device or "")).to_string()
            return merged[key]

        return place


def _check_same_layer(threads):
    """Raises the error of the design unless every tower waits in the layer that tower 0 waits in."""
    first = threads[0]
    for thread in threads[1:]:
        if first.request is None and thread.request is None:
            continue  # the one that waits comes later
        if first.request is not None and thread.request is not None and thread.request.meets(first.request):
            continue
        says = ["tower %d %s" % (t.tower.index, "waits in " + t.request.layer if t.request else "has returned")
                for t in (first, thread)]
        raise TowerError("%s, but %s; all towers must meet the same layers in the same order, with tensors of the same "
                         "types" % tuple(says))


def _unused_scope(name_scope):
    """The caller's scope, with a scope of its own for a further build in it: '' or a name ending in '/'."""
    graph = tf.get_default_graph()
    prefix = name_scope + "/" if name_scope else ""
    if graph.unique_name("tower_0", mark_as_used=False) == prefix + "tower_0":
        return prefix
    with tf.name_scope("build") as scope:
        return scope


def _first_batch(inputs):
    """The first tensor among `inputs` that is no scalar, or None."""
    for leaf in tf.nest.flatten(inputs):
        if isinstance(leaf, tf.Tensor) and leaf.shape.ndims != 0:
            return leaf
    return None


def _check_arguments(model_fn, tower_inputs, devices, aggregation_device, cluster):
    if not callable(model_fn):
        raise ValueError("model_fn is %r; wanted a function" % (model_fn,))
    if not devices:
        raise ValueError("devices is empty; wanted one device string a tower (see towers.tower_devices)")
    if len(tower_inputs) != len(devices):
        raise ValueError("tower_inputs has %d entries and devices has %d; wanted one of each a tower (see "
                         "towers.split_batch and towers.tower_devices)" % (len(tower_inputs), len(devices)))
    for device in devices + [aggregation_device]:
        tf.DeviceSpec.from_string(device or "")
    if cluster is not None and not isinstance(cluster, Cluster):
        raise ValueError("cluster is %r; wanted a towers.Cluster, or None" % (cluster,))


def _check_place(graph):
    if tf.executing_eagerly():
        raise ValueError("towers are built in graph mode, but eager execution is on; call "
                         "tf.compat.v1.disable_eager_execution() first, or build inside `with tf.Graph().as_default():`")
    if current_tower()._build is not None:
        raise ValueError("build was called inside tower %d of another build; call it outside the model function"
                         % current_tower().index)
    if graph.building_function or versions.control_flow_context(graph) is not None:
        raise ValueError("build was called inside tf.cond, tf.while_loop or a tf.function; call it outside")
