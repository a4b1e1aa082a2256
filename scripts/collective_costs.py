"""Measures what TensorFlow's CollectiveReduce costs between two processes of this machine: latency and bandwidth.

    python scripts/collective_costs.py

A sum over two workers is two messages one after the other, of half the bytes each: t(B) = 2 α + B/β. α is from sums of one
number, β from sums of 16 MB; each is the fastest of some runs of a chain of sums.
"""

import json
import os
import socket
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

CHAIN = {4: 100, 16 * 2**20: 4}  # from bytes to sums in a run
RUNS = 8
TIMEOUT = 180


def measure():
    """(α in seconds, β in bytes a second).

    Raises:
        OSError: a process failed or took longer than `TIMEOUT` seconds.
    """
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    hosts = ",".join("127.0.0.1:{}".format(one.getsockname()[1]) for one in held)
    for one in held:
        one.close()
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="")
    workers = [subprocess.Popen([sys.executable, os.path.abspath(__file__), hosts, str(i)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for i in range(2)]
    try:
        told = workers[0].communicate(timeout=TIMEOUT)[0]
    except subprocess.TimeoutExpired:
        raise OSError("two processes did not sum within {} s: see that nothing forbids connections to 127.0.0.1".format(
            TIMEOUT)) from None
    finally:
        for worker in workers:
            worker.kill()
    if workers[0].returncode:
        raise OSError("a process of the measurement failed: run `python scripts/collective_costs.py HOSTS 0` and `... 1` "
                      "for its error, HOSTS as 127.0.0.1:2222,127.0.0.1:2223")
    times = {int(size): seconds for size, seconds in json.loads(told.splitlines()[-1]).items()}
    small, large = min(times), max(times)
    return times[small] / 2, large / (times[large] - times[small])


def work(hosts, index):
    """One of the two processes: prints seconds a sum by its bytes."""
    import tensorflow.compat.v1 as tf

    import towers
    from towers import collectives

    tf.disable_eager_execution()
    cluster = towers.Cluster(hosts.split(","), index)
    devices, times = ["/cpu:0"], {}
    for size, number in CHAIN.items():
        with tf.Graph().as_default():
            workers = collectives.of(cluster, "/cpu:0")
            x = tf.get_variable("x", [size // 4], initializer=tf.ones_initializer(), use_resource=True)
            y = x.read_value()
            for _ in range(number):
                y = workers.sum(y)
            with tf.Session(cluster.start(devices), config=cluster.session_config(devices)) as session:
                session.run(x.initializer)
                session.run(y.op)  # agrees on keys
                taken = []
                for _ in range(RUNS):
                    start = time.perf_counter()
                    session.run(y.op)
                    taken.append(time.perf_counter() - start)
        times[size] = min(taken) / number
    if index == 1:
        time.sleep(TIMEOUT)  # the first may still be receiving, and ends this process
    print(json.dumps(times), flush=True)
    os._exit(0)  # the server would wait for the other


def main(arguments):
    if arguments:
        commandline.quiet_tensorflow()
        work(arguments[0], int(arguments[1]))
    latency, bandwidth = measure()
    print("CollectiveReduce between two processes: {:.0f} µs a message, {:.2f} GB/s".format(
        latency * 1e6, bandwidth / 1e9))


if __name__ == "__main__":
    commandline.run(main, positional=True)
