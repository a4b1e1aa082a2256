"""The heartbeat, without TensorFlow and in one process: who is waited for, refused, missed, and when all stop."""

import random
import socket
import threading
import time

import pytest

from towers import heartbeat, line_socket

TIMEOUT = 1.5


class Beating(heartbeat.Heartbeat):
    """A heartbeat that tells how it would have ended its process, and can be made to hang."""

    ended = None
    hanging = False

    def _end(self, line, code):
        self.ended = self.ended or (line, code)
        self._left = True

    def _find_dead(self):
        while self.hanging:
            time.sleep(.05)
        super(Beating, self)._find_dead()


@pytest.fixture
def workers():
    """A function that makes the heartbeats of so many workers; all are ended after the test."""
    made = []

    def make(count, timeout=TIMEOUT):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        hosts = ["127.0.0.1:%d" % (100 + i) for i in range(count)]
        made.extend(Beating(hosts, i, port, timeout) for i in range(count))
        return list(made)

    yield make
    for one in made:
        one.hanging, one._left = False, True
    for one in made:
        if one._thread is not None:
            one._thread.join(10)
            assert not one._thread.is_alive()


def together(*functions):
    """Calls all at once; what each returned or raised."""
    results = [None] * len(functions)

    def call(i):
        try:
            results[i] = functions[i]()
        except ValueError as error:
            results[i] = error

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(.02)


def joined(workers, facts=None):
    for result in together(*[lambda one=one: one.join(facts or {"a": 1}) for one in workers]):
        assert result == (facts or {"a": 1})


def test_all_get_the_chiefs_facts_and_a_fact_of_none_leaves_the_say_to_the_chief(workers):
    results = together(*[lambda one=one, step=step: one.join({"step": step, "seed": .1})
                         for one, step in zip(workers(3), (7, None, 7))])
    assert results == [{"step": 7, "seed": .1}] * 3


@pytest.mark.parametrize("facts", [[{"n": 2}, {"n": 3}, {"n": 2}], [{"n": 2}, {"n": 2}, {}]])
def test_a_difference_is_refused_everywhere_with_both_values(workers, facts):
    results = together(*[lambda one=one, own=own: one.join(own) for one, own in zip(workers(3), facts)])
    other = next(i for i in (1, 2) if facts[i] != facts[0])
    for error in results:
        assert isinstance(error, heartbeat.WorkersError) and "\n" not in str(error)
        assert "differ in n: 2 on worker 0 (127.0.0.1:100), %s on worker %d (127.0.0.1:10%d)" % (
            facts[other].get("n", "(absent)"), other, other) in str(error)


def test_another_list_of_hosts_is_refused_with_both(workers):
    three = workers(3)
    three[2]._hosts = three[2]._hosts[:2] + ["127.0.0.1:999"]
    for error in together(*[lambda one=one: one.join({}) for one in three]):
        assert isinstance(error, heartbeat.WorkersError)
        assert "127.0.0.1:999" in str(error) and "127.0.0.1:102" in str(error)


def test_a_late_worker_is_waited_for_by_name(workers):
    three, said = workers(3), [[], [], []]

    def late():
        until(lambda: said[0] and said[1])
        return three[2].join({}, say=said[2].append)

    results = together(lambda: three[0].join({}, say=said[0].append), lambda: three[1].join({}, say=said[1].append), late)
    assert results == [{}] * 3
    assert said[0][-1] == said[1][-1] == "waiting for worker 2 (127.0.0.1:102)" and not said[2]


def test_a_late_chief_is_waited_for_by_name(workers):
    two, said = workers(2), []

    def late():
        until(lambda: said)
        return two[0].join({})

    assert together(late, lambda: two[1].join({}, say=said.append)) == [{}, {}]
    assert said == ["waiting for worker 0 (127.0.0.1:100), the chief"]


def test_who_never_comes_is_given_up_by_name(workers):
    three = workers(3)
    chief, other = together(lambda: three[0].join({}, wait=1), lambda: three[1].join({}, wait=20))
    for error in (chief, other):
        assert isinstance(error, heartbeat.WorkersError)
        assert "worker 2 (127.0.0.1:102) did not come within 1 s" in str(error)


def test_a_chief_that_never_comes_is_given_up_with_the_reason(workers):
    two = workers(2)
    error, = together(lambda: two[1].join({}, wait=1))
    assert "worker 0 (127.0.0.1:100), the chief did not come within 1 s" in str(error)
    assert "port %d of 127.0.0.1: " % two[0]._port in str(error)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_death_ends_all_others_at_once_and_is_named(workers, victim):
    three = workers(3)
    joined(three)
    began = time.monotonic()
    three[victim]._left = True  # closes its connections, as the kernel does for a process that is gone
    others = [one for i, one in enumerate(three) if i != victim]
    until(lambda: all(one.ended for one in others))
    assert time.monotonic() - began < TIMEOUT
    for line, code in (one.ended for one in others):
        assert line.startswith("worker %d (127.0.0.1:10%d) died" % (victim, victim)) and code == heartbeat.EXIT_CODE


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_hangs_ends_all_others_after_the_timeout(workers, victim):
    three = workers(3)
    joined(three)
    began = time.monotonic()
    three[victim].hanging = True
    others = [one for i, one in enumerate(three) if i != victim]
    until(lambda: all(one.ended for one in others))
    assert .5 < time.monotonic() - began < TIMEOUT + 3
    for line, _ in (one.ended for one in others):
        assert line.startswith("worker %d (127.0.0.1:10%d) hangs" % (victim, victim))


def test_workers_that_only_wait_are_alive(workers):
    two = workers(2)
    joined(two)
    time.sleep(2 * TIMEOUT)
    assert [one.ended for one in two] == [None, None]


def test_a_worker_that_fails_tells_the_others_why(workers):
    three = workers(3)
    joined(three)
    three[1].fail("no such file:\n x.png")
    until(lambda: three[0].ended and three[2].ended)
    for one in (three[0], three[2]):
        assert one.ended[0].startswith("worker 1 (127.0.0.1:101) failed: no such file: x.png")
    assert three[1].ended is None


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_all_stop_at_one_step_whoever_is_asked_and_whatever_step_each_is_in(workers, victim):
    three = workers(3)
    joined(three)
    # A step ends on no worker before all have started it: what a collective does.
    started, lock = [0] * 3, threading.Condition()
    ask_at = random.Random(victim).randint(5, 30)

    def run(i):
        wobble = random.Random(10 + i)
        while three[i].may_start():
            with lock:
                started[i] += 1
                own = started[i]
                if i == victim and own == ask_at:
                    three[i].request_stop("SIGTERM")
                lock.notify_all()
                while min(started) < own:
                    assert lock.wait(20)
            time.sleep(wobble.random() * .02)
        three[i].leave()
        return started[i], three[i].stopped_by

    results = together(*[lambda i=i: run(i) for i in range(3)])
    assert results[0] == results[1] == results[2]
    assert results[0][0] >= ask_at and results[0][1] == "SIGTERM of worker %d (127.0.0.1:10%d)" % (victim, victim)


def test_the_chief_is_the_last_to_leave_and_a_worker_that_is_done_may_die(workers):
    three = workers(3)
    joined(three)
    left = []
    threads = [threading.Thread(target=lambda i=i: (three[i].leave(), left.append(i))) for i in (1, 2)]
    for thread in threads:
        thread.start()
    time.sleep(.6)
    assert not left
    three[2]._left = True
    time.sleep(.6)
    three[0].leave()
    for thread in threads:
        thread.join(10)
    assert sorted(left) == [1, 2] and [one.ended for one in three] == [None] * 3


def test_strangers_on_the_port_change_nothing(workers):
    two = workers(2)
    two[0].start()
    for text in (b"GET / HTTP/1.0\r\n\r\n", b"[1]\n", b"{}\n", b'{"hello": "another"}\n', b"\xff" * 100 + b"\n", b""):
        with socket.create_connection(("127.0.0.1", two[0]._port)) as stranger:
            stranger.sendall(text)
    joined(two)
    with socket.create_connection(("127.0.0.1", two[0]._port)) as stranger:
        stranger.sendall(b'{"hello": "%s", "index": 1, "hosts": ["127.0.0.1:100", "127.0.0.1:101"]}\n'
                         % heartbeat._PROTOCOL.encode())
        assert b"another process has come as worker 1" in stranger.recv(1000)
    time.sleep(.5)
    assert [one.ended for one in two] == [None, None]


def test_a_port_in_use_is_refused_at_once(workers):
    two = workers(2)
    taken = line_socket.listen("127.0.0.1", two[0]._port)
    try:
        with pytest.raises(heartbeat.WorkersError, match="cannot listen on port %d" % two[0]._port):
            two[0].start()
    finally:
        taken.close()


def test_the_default_port_is_one_that_exists():
    assert heartbeat._default_port(2222) == 3222
    assert heartbeat._default_port(65000) == 64000
