"""A cluster of workers: processes, on one machine or many, that train one model together.

Each worker builds its own towers and its own copy of the variables; statistics, sums and gradients go over all workers
(see `collectives`), so the copies stay the same, bit for bit. A worker is a TensorFlow server; nothing else is started.

    cluster = towers.Cluster(["a:2222", "b:2222"], task_index=0)            # or Cluster.from_tf_config()
    step = towers.build_train_step(model, parts, optimizer, devices, cluster=cluster)
    start_alike = cluster.broadcast_variables()
    with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
        session.run(tf.global_variables_initializer())
        session.run(start_alike)                                            # the chief's values, on every worker
        session.run(step.train_op)                                          # on every worker, as often

A run on one worker that holds a collective waits for the other workers to run it too: all must run the same things, the
same number of times. `train_op` holds every collective of the step.
"""

import hashlib
import json
import numbers
import os

import tensorflow.compat.v1 as tf

from towers import collectives, heartbeat
from towers.devices import session_config

_JOB = "worker"


class Cluster(object):
    """The workers, and which of them this process is.

    Args:
      hosts: `'host:port'` of every worker, the same list in the same order on each; the first is the chief.
      task_index: this worker's place in the list.

    Attributes:
      hosts, task_index: as given.
      num_workers: how many there are.
      is_chief: whether this is worker 0, the one to write checkpoints and summaries.
      heartbeat: the `heartbeat.Heartbeat` by which workers know of each other, once it was started.
      joined: the chief's facts, after `join`; else None.

    Every worker must have the same number of towers and build the same graph.

    Raises:
      ValueError: no hosts, one that is no `host:port` or stands twice, or a `task_index` that is none of theirs.
    """

    def __init__(self, hosts, task_index):
        self.hosts = [hosts] if isinstance(hosts, str) else list(hosts)
        self.task_index = task_index
        _check(self.hosts, task_index)
        self.num_workers = len(self.hosts)
        self.is_chief = task_index == 0
        self.heartbeat = self.joined = None
        self._keys = 0
        self._server = None

    @classmethod
    def from_tf_config(cls):
        """The cluster that the environment variable TF_CONFIG describes: its chief (if any), then its workers.

        Raises:
          ValueError: TF_CONFIG is unset or no JSON, has no workers, or gives this process another role.
        """
        text = os.environ.get("TF_CONFIG")
        wanted = ('wanted {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}')
        if not text:
            raise ValueError("TF_CONFIG is not set; %s" % wanted)
        try:
            config = json.loads(text)
            jobs, task = dict(config["cluster"]), config["task"]
            kind, index = task["type"], int(task["index"])
            chiefs = list(jobs.get("chief") or jobs.get("master") or [])
            workers = list(jobs.get("worker") or [])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError("TF_CONFIG is %s (%s: %s); %s" % (text, type(error).__name__, error, wanted)) from error
        own = {"chief": chiefs, "master": chiefs, "worker": workers}.get(kind)
        if own is None:
            raise ValueError("TF_CONFIG gives this process the task %r; wanted a chief or a worker: there are no parameter "
                             "servers or evaluators here" % kind)
        if not 0 <= index < len(own):
            raise ValueError("TF_CONFIG gives this process the task %s %d, but lists %d of them; %s"
                             % (kind, index, len(own), wanted))
        return cls(chiefs + workers, index + (len(chiefs) if kind == "worker" else 0))

    def start(self, devices=(), config=None, **fields):
        """Starts this worker's server, once, and returns the target for `tf.Session`.

        Args:
          devices: this worker's device strings (from `tower_devices`).
          config: what `session_config` made of them, if it is at hand.
          **fields: fields of `tf.ConfigProto`.
        """
        if self._server is None:
            self._server = tf.train.Server(tf.train.ClusterSpec({_JOB: self.hosts}), _JOB, self.task_index,
                                           config=config or self.session_config(devices, **fields))
        return self._server.target

    def start_heartbeat(self, port=None, timeout=30.0):
        """Starts this worker's `heartbeat`, once: as soon as may be, so that its end is seen from then on.

        Args:
          port: the port the chief listens on for it, the same on all workers; None for its port in `hosts` plus 1000.
          timeout: seconds without a sign of life after which a worker counts as dead.

        Raises:
          heartbeat.WorkersError: the chief's port cannot be listened on.
        """
        if self.heartbeat is None:
            self.heartbeat = heartbeat.Heartbeat(self.hosts, self.task_index, port, timeout)
            self.heartbeat.start()

    def join(self, facts=None, wait=300.0, say=print):
        """Waits until all workers have come, and mean the same run; returns the chief's facts.

        Args:
          facts: what must be the same on all workers, a dict by name of what JSON can hold; the versions of TensorFlow and
            Towers are looked at in any case. None as a value leaves the say to the chief.
          wait: seconds after which a worker that has not come is given up.
          say: called with a line about whom is waited for.

        Raises:
          heartbeat.WorkersError: naming who has not come, or what differs and both values.
        """
        self.start_heartbeat()
        everywhere = {"TensorFlow": tf.__version__, "the sources of Towers": source_digest(os.path.dirname(__file__))}
        self.joined = self.heartbeat.join(dict(everywhere, **(facts or {})), wait, say)
        return self.joined

    def share(self, batch_size, num_towers):
        """The places in a batch of all workers that this one's towers take: (first, number).

        As `split_batch` splits it over all towers: those in front have one example more where it does not come out even.

        Args:
          batch_size: examples over all towers of all workers.
          num_towers: towers of each worker.
        """
        each, more = divmod(batch_size, num_towers * self.num_workers)
        first, end = (tower * each + min(tower, more)
                      for tower in (self.task_index * num_towers, (self.task_index + 1) * num_towers))
        return first, end - first

    def leave(self):
        """Waits until every worker has come to its end, and ends the heartbeat."""
        if self.heartbeat is not None:
            self.heartbeat.leave()
        self.heartbeat = self.joined = None

    def session_config(self, devices, **fields):
        """`towers.session_config` for a session of this worker: it sees its own devices only, and worker 0 leads.

        Args:
          devices: this worker's device strings.
          **fields: fields of `tf.ConfigProto`.
        """
        config = session_config(devices, **fields)
        config.experimental.collective_group_leader = "/job:%s/replica:0/task:0" % _JOB
        del config.device_filters[:]
        config.device_filters.append("/job:%s/task:%d" % (_JOB, self.task_index))
        return config

    def broadcast_variables(self, variables=None):
        """An op that gives every worker the chief's values: run it on every worker, after the initial values are there.

        Args:
          variables: what to broadcast; `None` for all global variables in the graph (of numbers; others are left alone).
        """
        variables = tf.global_variables() if variables is None else list(variables)
        variables = [v for v in variables if v.dtype.base_dtype not in (tf.string, tf.resource, tf.variant)]
        workers = collectives.of(self, "/cpu:0")
        if workers.num_workers == 1 or not variables:
            return tf.no_op(name="broadcast_variables")
        with tf.name_scope("broadcast_variables"):
            values = [tf.cast(v, tf.int32) if v.dtype.base_dtype == tf.bool else tf.convert_to_tensor(v) for v in variables]
            values = workers.sums(values if self.is_chief else [tf.zeros_like(value) for value in values])
            return tf.group(*[variable.assign(tf.cast(value, variable.dtype.base_dtype)).op
                              for variable, value in zip(variables, values)])

    def new_key(self):
        """The key of the next collective: workers that build the same graphs give the same keys."""
        self._keys += 1
        return self._keys

    def __repr__(self):
        return "Cluster(hosts=%r, task_index=%d)" % (self.hosts, self.task_index)


def source_digest(*folders):
    """Eight hexadecimal digits of the Python files in folders: the same where the code is."""
    digest = hashlib.sha256()
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()[:8]


def _check(hosts, task_index):
    if not hosts:
        raise ValueError("hosts is empty; wanted 'host:port' of every worker")
    for host in hosts:
        name, _, port = host.rpartition(":") if isinstance(host, str) else ("", "", "")
        if not name or not port.isdigit() or not 0 < int(port) < 2**16:
            raise ValueError("%r in hosts is no 'host:port', such as '10.0.0.1:2222'" % (host,))
    twice = sorted(set(host for host in hosts if hosts.count(host) > 1))
    if twice:
        raise ValueError("%s stands twice in hosts; wanted one port a worker" % ", ".join(twice))
    if isinstance(task_index, bool) or not isinstance(task_index, numbers.Integral) or not 0 <= task_index < len(hosts):
        raise ValueError("task_index is %r; wanted an integer from 0 to %d, this worker's place in hosts"
                         % (task_index, len(hosts) - 1))
