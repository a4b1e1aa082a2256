"""Several workers, each a process with a server of its own, train as one device on the whole batch does."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import cluster_worker, oracles
from tests.towers.test_sync_bn_groups import by_groups

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHAPES = [(2, 2)] + [pytest.param(shape, marks=pytest.mark.long) for shape in ((2, 1), (3, 1), (3, 2), (4, 1))]
DTYPES = ("float64", "float32")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: "%dx%d" % shape)
def run(request, tmp_path_factory):
    """What the workers of a cluster wrote: (number of workers, towers a worker, one dict a worker)."""
    num_workers, num_local = request.param
    folder = tmp_path_factory.mktemp("cluster")
    hosts = ",".join("127.0.0.1:%d" % port for port in free_ports(num_workers))
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
    logs = [open(str(folder / ("%d.log" % i)), "w+") for i in range(num_workers)]
    workers = [
        subprocess.Popen([sys.executable, "-m", "tests.towers.cluster_worker", hosts, str(i), str(num_local),
                          str(folder / ("%d.npz" % i))], cwd=ROOT, env=environment, stdout=logs[i], stderr=logs[i])
        for i in range(num_workers)]
    try:
        codes = [worker.wait(timeout=240) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    texts = []
    for log in logs:
        log.seek(0)
        texts.append(log.read()[-3000:])
        log.close()
    assert codes == [0] * num_workers, texts
    return num_workers, num_local, [dict(np.load(str(folder / ("%d.npz" % i)))) for i in range(num_workers)]


def one_device(first, num_towers, dtype):
    """The same training by TensorFlow alone, on one device and the whole batch: losses and all variables."""
    updates = []

    def norm(x, name):
        with tf.variable_scope(name):
            channels = [x.shape.as_list()[-1]]
            gamma = tf.get_variable("gamma", channels, x.dtype, tf.ones_initializer())
            beta = tf.get_variable("beta", channels, x.dtype, tf.zeros_initializer())
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            count = np.prod(x.shape.as_list()[:3])
            for moving, batch, start in (("moving_mean", mean, 0.), ("moving_variance", variance * count / (count - 1), 1.)):
                variable = tf.get_variable(moving, channels, x.dtype, tf.constant_initializer(start), trainable=False)
                updates.append(variable.assign(.9 * variable + .1 * batch))
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)

    with tf.Graph().as_default(), tf.variable_scope("", use_resource=True):
        images, words, targets = cluster_worker.data(num_towers)
        loss = cluster_worker.model(norm, tf.reduce_mean)(
            tf.constant(images.astype(dtype)), tf.constant(words), tf.constant(targets.astype(dtype)))
        optimizer = tf.train.MomentumOptimizer(.05, .9)
        pairs = optimizer.compute_gradients(loss)
        with tf.control_dependencies([tf.convert_to_tensor(g) for g, _ in pairs] + updates):
            train_op = optimizer.apply_gradients(pairs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for variable in tf.trainable_variables():
                variable.load(first[variable.op.name], session)
            losses = [session.run([train_op, loss])[1] for _ in range(cluster_worker.STEPS)]
            return losses, session.run({v.op.name: v for v in tf.global_variables()})


@pytest.mark.parametrize("statistics", ["sum", "concat"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_workers_train_as_one_device_on_the_whole_batch(run, dtype, statistics):
    num_workers, num_local, results = run
    name = "%s_%s_" % (dtype, statistics)
    chief = results[0]
    first = {key[len(name + "first/"):]: value for key, value in chief.items() if key.startswith(name + "first/")}
    losses, values = one_device(first, num_workers * num_local, dtype)
    rtol = 1e-9 if dtype == "float64" else 5e-4
    np.testing.assert_allclose(chief[name + "losses"], losses, rtol=rtol)
    assert losses[-1] < .7 * losses[0]
    for key, value in values.items():
        np.testing.assert_allclose(chief[name + key], value, rtol=rtol, atol=rtol, err_msg=key)
    assert set(values) <= set(key[len(name):] for key in chief if key.startswith(name))


def test_every_worker_holds_the_same_bits_after_50_steps(run):
    _, _, results = run
    keys = [key for key in results[0] if key.startswith(DTYPES)]
    assert any("moving_variance" in key for key in keys) and any("Momentum" in key for key in keys)
    for other in results[1:]:
        for key in keys:
            assert np.array_equal(results[0][key], other[key]), key


def test_a_step_takes_two_collectives_a_sync_layer_and_a_few_more(run):
    _, _, results = run
    # Three layers forward, two backward (the first one's inputs are data); the weight of the mean; the loss; dense
    # gradients in one bucket a dtype; the table's slices: sizes and rows, of values and of indices.
    for dtype, buckets in zip(DTYPES, (1, 2)):
        for statistics in ("sum", "concat"):
            assert results[0]["%s_%s_collectives" % (dtype, statistics)] == 3 + 2 + 1 + 1 + buckets + 4


def test_inspect_counts_collectives_and_bytes_by_what_they_are_for(run):
    num_workers, _, results = run
    channels = [cluster_worker.CHANNELS, 4, 4]  # of the three layers
    affine = sum(2 * c for c in channels)
    kernels = 3 * 3 * 3 * 4 + 3 * 3 * 4 * 4 + 4 * 2
    for dtype in DTYPES:
        size = np.dtype(dtype).itemsize
        expected = {
            "sync BN forward": (3, sum(1 + 2 * c for c in channels) * 8, 0),  # float64 in any case
            "sync BN backward": (2, 2 * (4 + 4) * size, 0),  # the first layer's inputs are data
            # Kernels in float64, gammas and betas; of the table the sizes of values and indices, whose rows are as long
            # as the longest worker's.
            "gradients": (4 + (1 if dtype == "float64" else 2), kernels * 8 + affine * size + 2 * num_workers * 4, 2),
            "other": (2, size + size, 0)}  # the loss, and the weight of its mean
        for result in results:
            prefix = "%s_sum_kind/" % dtype
            got = {key[len(prefix):]: tuple(value) for key, value in result.items() if key.startswith(prefix)}
            assert got == {kind: (num_workers,) + values for kind, values in expected.items()}


@pytest.mark.parametrize("statistics", ["sum", "concat"])
def test_groups_of_towers_equal_one_device_a_group_and_keep_one_state(run, statistics):
    num_workers, num_local, results = run
    parts, dys = zip(*cluster_worker.group_data(num_workers * num_local))
    for size in cluster_worker.group_sizes(num_workers, num_local):
        name = "groups_%d_%s_" % (size, statistics)
        groups, mean, variance = by_groups(parts, dys, size, 1, 0)
        ys = np.concatenate([y for group in groups for y in group.y])
        np.testing.assert_allclose(np.concatenate([result[name + "y"] for result in results]), ys, atol=1e-10)
        gradients = {key: results[0][name + "gradient/" + key] * len(parts) for key in ("bn/gamma", "bn/beta", "w")}
        np.testing.assert_allclose(gradients["bn/gamma"], sum(group.dgamma for group in groups), atol=1e-10)
        np.testing.assert_allclose(gradients["bn/beta"], sum(group.dbeta for group in groups), atol=1e-10)
        other, _, _ = by_groups(parts, ys_of(groups), size, 1, 0)  # the second layer's dy is its own output
        dxs = [a + b for pair in zip(groups, other) for a, b in zip(pair[0].dx, pair[1].dx)]
        dw = sum((dx * x).sum((0, 1)) for dx, x in zip(dxs, parts))
        np.testing.assert_allclose(gradients["w"], dw, atol=1e-8)
        np.testing.assert_allclose(results[0][name + "first/bn/moving_mean"], .1 * mean, rtol=1e-12)
        np.testing.assert_allclose(results[0][name + "first/bn/moving_variance"], .9 + .1 * variance, rtol=1e-12)
        after = [key for key in results[0] if key.startswith(name + "after/")]
        assert len(after) == 10 and all(np.array_equal(results[0][key], result[key]) for result in results for key in after)


def ys_of(groups):
    return [y for group in groups for y in group.y]


def test_groups_within_a_worker_take_no_collective_in_a_layer_and_others_take_those_of_their_workers(run):
    num_workers, num_local, results = run
    c, layers = cluster_worker.CHANNELS, 2
    for size in cluster_worker.group_sizes(num_workers, num_local):
        members = max(1, size // num_local)
        # Of w and of two gammas and betas; and the loss.
        expected = {"gradients/%d" % num_workers: (1, 5 * c * 8), "other/%d" % num_workers: (1, 8)}
        if members > 1:
            expected["sync BN forward/%d" % members] = layers, layers * (1 + 2 * c) * 8
            expected["sync BN backward/%d" % members] = layers, layers * 2 * c * 8
        if members < num_workers:
            expected["moving statistics/%d" % num_workers] = 1, layers * (2 + 2 * c) * 8
        for result in results:
            got = {key.split("number/")[1]: tuple(value) for key, value in result.items()
                   if key.startswith("groups_%d_sum_number/" % size)}
            assert got == expected


def test_reductions_reach_over_all_workers(run):
    num_workers, num_local, results = run
    count = num_workers * num_local
    towers_ = range(count)
    x = np.array([[i + 1., i + 2.] for i in towers_])
    rows = np.concatenate([np.full([i + 1, 2], i) for i in towers_])
    concat = np.concatenate([np.full([i + 1, 2], i) * x[i] for i in towers_])
    loss_weight = sum(i + 1 for i in towers_)
    for i in towers_:
        got = {key.split("/")[1]: value for key, value in results[i // num_local].items()
               if key.startswith("tower_%d/" % i)}
        assert (got["index"], got["num_towers"], got["is_main"], got["keeps_state"]) == (
            i, count, i == 0, i % num_local == 0)
        np.testing.assert_allclose(got["sum"], x.sum(0))
        np.testing.assert_allclose(got["mean"], np.mean(towers_))
        np.testing.assert_array_equal(got["sums"], [loss_weight] * 8)
        np.testing.assert_allclose(got["concat"], concat)
        np.testing.assert_array_equal(got["columns"], rows.T)
        np.testing.assert_array_equal(got["bools"], rows > 0)
        np.testing.assert_allclose(got["lowest"], x[i // num_local * num_local])  # merge stays within the worker
        # d/dx_i of (sum of the towers' weights) * sum over rows of (i x_i)^2
        np.testing.assert_allclose(got["gradient"], loss_weight * (i + 1) * 2 * i ** 2 * x[i], rtol=1e-6)
    weighted = np.mean([results[i // num_local]["tower_%d/weighted" % i] for i in towers_])
    np.testing.assert_allclose(weighted, sum(i * x[i].sum() for i in towers_) / (2 * sum(towers_)), rtol=1e-6)


def test_dropout_masks_are_those_of_one_device_on_the_whole_batch(run):
    num_workers, num_local, results = run
    tf.train.get_or_create_global_step()
    whole = np.ones([sum(cluster_worker.sizes(num_workers * num_local)), 20], np.float32)
    mask, = towers.build(cluster_worker.masks, [tf.constant(whole)], oracles.CPUS[:1], training=True)
    with oracles.session() as session:
        oracles.initialize(session)
        np.testing.assert_array_equal(np.concatenate([result["masks"] for result in results]), session.run(mask))


@pytest.mark.parametrize("hosts,index,says", [
    ([], 0, "hosts is empty"), (["a:1", "a:1"], 0, "stands twice"), (["a:1", "b"], 0, "'b' in hosts is no 'host:port'"),
    (["a:99999"], 0, "is no 'host:port'"), (["a:1"], 1, "task_index is 1"), (["a:1"], -1, "task_index is -1"),
    (["a:1"], True, "task_index is True"), ([7], 0, "7 in hosts")])
def test_a_wrong_cluster_is_refused_in_one_line(hosts, index, says):
    with pytest.raises(ValueError, match=says) as error:
        towers.Cluster(hosts, index)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("config,hosts,index", [
    ({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}, ["a:1", "b:2"], 1),
    ({"cluster": {"chief": ["c:3"], "worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}},
     ["c:3", "a:1", "b:2"], 2),
    ({"cluster": {"chief": ["c:3"], "worker": ["a:1"]}, "task": {"type": "chief", "index": "0"}}, ["c:3", "a:1"], 0)])
def test_a_cluster_from_tf_config(monkeypatch, config, hosts, index):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    cluster = towers.Cluster.from_tf_config()
    assert (cluster.hosts, cluster.task_index, cluster.is_chief) == (hosts, index, index == 0)
    assert cluster.num_workers == len(hosts)


@pytest.mark.parametrize("text,says", [
    (None, "TF_CONFIG is not set"), ("{", "TF_CONFIG is {"), ("[]", "TF_CONFIG is"), ("{}", "TF_CONFIG is"),
    ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}', "the task 'ps'"),
    ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 3}}', "worker 3, but lists 1")])
def test_a_wrong_tf_config_is_refused(monkeypatch, text, says):
    if text is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=says):
        towers.Cluster.from_tf_config()


def test_a_cluster_of_one_worker_is_no_cluster():
    step = towers.build_train_step(lambda x: tf.reduce_sum(x * tf.get_variable("w", [])), [tf.ones([2])] * 2,
                                   tf.train.GradientDescentOptimizer(1.), oracles.CPUS[:2],
                                   cluster=towers.Cluster(["localhost:1"], 0))
    assert step.loss is not None
    assert not [op for op in tf.get_default_graph().get_operations() if op.type == "CollectiveReduce"]


def test_another_cluster_object_is_refused():
    with pytest.raises(ValueError, match="wanted a towers.Cluster"):
        towers.build(lambda x: x, [tf.ones([])], ["/cpu:0"], cluster={"worker": ["a:1"]})
