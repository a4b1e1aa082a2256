"""Liveness of workers, apart from the step: who is there, whether all mean the same run, who died, and when to stop.

A step can take minutes, and a collective that waits for a dead worker waits for ever. So each worker has a thread that does
nothing but this: the chief listens on a port of its own, the others connect to it, and every second each side says that it
is alive. Where a connection ends, or nothing comes for `timeout` seconds, the chief tells all, and every worker's thread
ends its process with one line that names the worker and exit code 3; the main thread may be stuck in the step meanwhile.
A process that is stopped, or hangs with Python's lock held, has no heartbeat; one that waits in the step has.

To stop at one step, on a signal that only one worker may have got: the chief holds everyone between steps, hears which step
each has started, and lets all go on to the largest of these. No step can end before all have started it, so these differ by
one at most, and a held worker only keeps others waiting inside a step that it will start.

    worker → chief  hello, facts, beat, stop, started, failed, done
    chief → worker  waiting, go, refused, beat, hold, last, failed, bye

Only the standard library is used, and whatever comes over the wire is data: open the ports to the cluster alone.
"""

import os
import selectors
import threading
import time

from towers import line_socket

EXIT_CODE = 3  # of a process that ends because another worker did
DEFAULT_PORT_OFFSET = 1000  # the chief listens at its port in hosts plus this, or minus it where there is no such port

_INTERVAL = 1.0  # seconds between beats
_TURN = 0.2
_LINGER = 5.0  # seconds for which a refusal is told to those who come
_PROTOCOL = "towers heartbeat 1"


class WorkersError(ValueError):
    """Workers that did not come together, or mean different runs; the message says which."""


class Heartbeat(object):
    """This worker's part.

    Args:
      hosts: `'host:port'` of every worker; the first is the chief.
      task_index: this worker's place in the list.
      port: the port the chief listens on; None for its port in `hosts` plus 1000.
      timeout: seconds without a sign of life after which a worker counts as dead.
    """

    def __init__(self, hosts, task_index, port=None, timeout=30.0):
        self._hosts, self._index = list(hosts), task_index
        self._chief_host, _, chief_port = self._hosts[0].rpartition(":")
        self._chief_host = self._chief_host.strip("[]")
        self._port = port or _default_port(int(chief_port))
        self._timeout = timeout
        self._changed = threading.Condition()
        self._peers = {}  # by index: a `_Peer`; of a worker only the chief's
        self._unnamed = []  # connections that have not said who they are
        self._listener = self._thread = None
        self._why_not = None  # why the chief cannot be reached
        self._facts = self._agreed = self._refusal = self._missing = None
        self._signal = None  # what asks for a stop here: set by a signal handler, which must not take a lock
        self._asked = self._held = self._leaving = self._left = False
        self._started, self._last, self.stopped_by = 0, None, None
        self._failure = self._failed_at = self._refused_at = None

    @property
    def is_chief(self):
        return self._index == 0

    def name(self, index):
        """What messages call a worker."""
        return "worker %d (%s)" % (index, self._hosts[index])

    def start(self):
        """Starts the thread, once. The workers that do not come are missed only by `join`.

        Raises:
          WorkersError: the chief's port cannot be listened on.
        """
        if self._thread is not None:
            return
        if self.is_chief:
            try:
                self._listener = line_socket.listen(self._chief_host, self._port)
            except OSError as error:
                raise WorkersError("the heartbeat cannot listen on port %d (%s): end what uses it, or choose another port for "
                                   "all workers" % (self._port, error.strerror or error)) from error
        self._thread = threading.Thread(target=self._run, name="heartbeat")
        self._thread.daemon = True
        self._thread.start()

    def join(self, facts, wait=300.0, say=print):
        """Waits until all workers have come with the same facts; returns the chief's.

        Args:
          facts: a dict of what must be the same everywhere, by name; of values that JSON has. A value None leaves the say
            to the chief.
          wait: seconds after which a worker that has not come is given up.
          say: called with a line about whom is waited for.

        Raises:
          WorkersError: naming who has not come, or what differs and both values; on every worker that is there.
        """
        self.start()
        began, told, next_line = time.monotonic(), None, 2.0
        with self._changed:
            self._facts = dict(facts)
            while self._agreed is None and self._refusal is None:
                self._changed.wait(_TURN)
                waited, missing = time.monotonic() - began, self._still_missing()
                if waited > wait and missing:
                    self._refusal = "%s did not come within %d s%s: start all workers, with the same list of hosts" % (
                        ", ".join(missing), wait, " (%s)" % self._why_not if self._why_not else "")
                    self._give_up()
                elif missing and waited > next_line and (missing != told or waited > 2 * next_line):
                    told, next_line = missing, max(waited, next_line)
                    say("waiting for %s" % ", ".join(missing[:8] + ["%d more" % (len(missing) - 8)] * (len(missing) > 8)))
        if self._refusal is not None:
            self._thread.join(10)
            raise WorkersError(self._refusal)
        return dict(self._agreed)

    def request_stop(self, signal_name):
        """Asks for a stop of all workers at one step. Safe in a signal handler."""
        self._signal = self._signal or signal_name

    def may_start(self):
        """Whether this worker is to start another step; counts it if so. Every worker asks before each step.

        After it said no, `stopped_by` is the text of what stopped the run: 'SIGTERM of worker 1 (host:port)'.
        """
        with self._changed:
            while self._held and self._last is None:
                self._changed.wait(_TURN)
            if self._last is not None and self._started >= self._last:
                return False
            self._started += 1
            return True

    def fail(self, message):
        """Tells the others why this worker ends; they end too. Returns when that is under way."""
        if self._thread is None or self._left:
            return
        with self._changed:
            self._failure = _one_line(message)
            until = time.monotonic() + 3
            while self._failed_at is None and time.monotonic() < until:
                self._changed.wait(_TURN)

    def await_explanation(self, seconds=None):
        """Where the step failed as it does when another worker is gone: waits for the end of this process that says so.

        Returns when nothing was heard of any worker's end for so many seconds, by default as long as that can take.
        """
        time.sleep(self._timeout + 3 * _INTERVAL if seconds is None else seconds)

    def leave(self):
        """Waits until all workers have done their part, the chief last, and ends the heartbeat."""
        with self._changed:
            self._leaving = True
            while not self._left:
                self._changed.wait(_TURN)
        self._thread.join()

    def _run(self):
        try:
            self._watch()
        except BaseException as error:  # pylint: disable=broad-except  # without a heartbeat a run cannot go on
            self._end("the heartbeat broke: %s: %s" % (type(error).__name__, error), 1)

    def _watch(self):
        beat = turn = time.monotonic()
        with selectors.DefaultSelector() as self._selector:
            if self._listener is not None:
                self._selector.register(self._listener, selectors.EVENT_READ)
            while not self._left:
                if not self.is_chief and not self._peers and not self._connect():
                    if self._refused_at is not None:
                        break
                    time.sleep(_TURN)
                    continue
                self._selector.select(_TURN)
                with self._changed:
                    self._accept()
                    self._receive()
                    late = time.monotonic() - turn - 5 * _INTERVAL
                    turn = time.monotonic()
                    for peer in self._peers.values():
                        if late > 0:  # this process stood still, and may not blame the others for it
                            peer.line.heard += late
                        if turn - beat >= _INTERVAL:
                            peer.line.send(beat=1)
                        peer.line.flush()
                    if turn - beat >= _INTERVAL:
                        beat = turn
                    self._find_dead()
                    (self._lead if self.is_chief else self._follow)()
                    self._changed.notify_all()
            self._close()

    def _connect(self):
        try:
            line = line_socket.connect(self._chief_host, self._port, 5)
        except OSError as error:
            self._why_not = "port %d of %s: %s" % (self._port, self._chief_host, error.strerror or error)
            return False
        line.send(hello=_PROTOCOL, index=self._index, hosts=self._hosts)
        self._selector.register(line.socket, selectors.EVENT_READ)
        with self._changed:
            self._peers[0], self._why_not = _Peer(line), None
        return True

    def _accept(self):
        while self._listener is not None:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                break
            self._unnamed.append(line_socket.LineSocket(connected))
            self._selector.register(connected, selectors.EVENT_READ)
        for line in list(self._unnamed):
            messages = line.receive()
            if messages and messages[0].get("hello") == _PROTOCOL:
                self._unnamed.remove(line)
                self._welcome(line, messages[0])
                for message in messages[1:]:
                    self._handle(self._peers.get(messages[0].get("index")), message)
            elif messages or line.closed or time.monotonic() - line.heard > self._timeout:
                self._unnamed.remove(line)
                self._drop(line)

    def _welcome(self, line, hello):
        if self._refusal is not None:
            line.send(refused=self._refusal)
            self._drop(line)
            return
        index, hosts = hello.get("index"), hello.get("hosts")
        problem = None
        if hosts != self._hosts:
            problem = "its hosts are %s, those of %s are %s" % (_listed(hosts), self.name(0), ",".join(self._hosts))
        elif not isinstance(index, int) or not 0 < index < len(self._hosts):
            problem = "its task_index is %r; wanted one from 1 to %d" % (index, len(self._hosts) - 1)
        elif index in self._peers:
            problem = "another process has come as %s already" % self.name(index)
        elif self._agreed is not None:
            problem = "the run goes on without it already: restart all workers"
        if problem is None:
            self._peers[index] = _Peer(line)
            return
        text = "a worker was refused by %s: %s" % (self.name(0), problem)
        line.send(refused=text)
        self._drop(line)
        if self._agreed is None and "another process" not in problem:
            self._refusal = text
            self._give_up()

    def _drop(self, line):
        try:
            self._selector.unregister(line.socket)
        except (KeyError, ValueError):  # it is out already
            pass
        line.close()

    def _receive(self):
        for peer in self._peers.values():
            for message in peer.line.receive():
                self._handle(peer, message)

    def _handle(self, peer, message):
        if peer is None:
            return
        if "failed" in message:
            text = message["failed"]
            self._all_fail("%s failed: %s" % (self._name_of(peer), text) if self.is_chief else text)
        elif self.is_chief:
            if "facts" in message:
                peer.facts = message["facts"]
            elif "started" in message:
                peer.started = message["started"]
            elif "done" in message:
                peer.done = True
            elif "stop" in message and not self._held:
                self._hold("%s of %s" % (message["stop"], self._name_of(peer)))
        elif "waiting" in message:
            self._missing = message["waiting"]
        elif "go" in message:
            self._agreed = message["go"]
        elif "refused" in message:
            self._refusal = message["refused"]
            self._left = True
        elif "hold" in message:
            self._held, self.stopped_by = True, message["hold"]
            peer.line.send(started=self._started)
        elif "last" in message:
            self._last = message["last"]
        elif "bye" in message:
            self._left = True

    def _lead(self):
        """The chief's turn."""
        peers = self._peers.values()
        if self._refused_at is not None:  # who comes a little later is told as well
            everyone = len(peers) == len(self._hosts) - 1
            self._left = everyone or time.monotonic() - self._refused_at > _LINGER
            return
        if self._agreed is None and self._refusal is None and self._facts is not None:
            missing = self._still_missing()
            for peer in peers:
                if peer.told != missing:
                    peer.line.send(waiting=missing)
                    peer.told = missing
            self._refusal = self._difference()
            if self._refusal is not None:
                self._give_up()
            elif not missing:
                self._agreed = self._facts
                for peer in peers:
                    peer.line.send(go=self._agreed)
        if self._signal and not self._held:
            self._hold("%s of %s" % (self._signal, self.name(0)))
        working = [peer for peer in peers if not peer.done]
        if self._held and self._last is None and all(peer.started is not None for peer in working):
            self._last = max([self._started] + [peer.started or 0 for peer in peers])
            for peer in peers:
                peer.line.send(last=self._last)
        self._report_failure("%s failed: %s" % (self.name(0), self._failure))
        if self._leaving and not working:
            for peer in peers:
                peer.line.send(bye=1)
            self._left = True

    def _follow(self):
        """The turn of another worker."""
        line = self._peers[0].line
        if self._facts is not None and not self._peers[0].told:
            line.send(facts=self._facts)
            self._peers[0].told = True
        if self._signal and not self._asked:
            line.send(stop=self._signal)
            self._asked = True
        self._report_failure(self._failure)
        self._left = self._left or self._refused_at is not None
        if self._leaving and not self._peers[0].done:
            line.send(done=1)
            self._peers[0].done = True

    def _hold(self, reason):
        self._held, self.stopped_by = True, reason
        for peer in self._peers.values():
            peer.line.send(hold=reason)

    def _still_missing(self):
        if self.is_chief:
            return [self.name(i) for i in range(1, len(self._hosts)) if i not in self._peers or self._peers[i].facts is None]
        own = self.name(self._index)
        return [name for name in self._missing or () if name != own] if self._peers else [self.name(0) + ", the chief"]

    def _difference(self):
        """What a worker has that is not as the chief has it, in one line; None where there is nothing."""
        for index, peer in sorted(self._peers.items()):
            facts = self._facts if peer.facts is None else peer.facts
            for name in sorted(set(self._facts) | set(facts)):
                own, other = (values.get(name, "(absent)") for values in (self._facts, facts))
                if own != other and other is not None:
                    return "workers differ in %s: %s on %s, %s on %s; start all with the same" % (
                        name, _shown(own), self.name(0), _shown(other), self.name(index))
        return None

    def _give_up(self):
        """Before the run has begun: tells the others the refusal, which `join` raises everywhere."""
        for peer in self._peers.values():
            peer.line.send(**({"refused": self._refusal} if self.is_chief else {"failed": self._refusal}))
        self._refused_at = time.monotonic()

    def _find_dead(self):
        now = time.monotonic()
        for peer in self._peers.values():
            if self._left or self._refusal is not None:
                continue
            if self.is_chief and peer.done:
                if peer.line.closed:  # it has done its part; nothing is lost with it
                    self._drop(peer.line)
                continue
            if peer.line.closed:
                self._all_fail("%s died: %s" % (self._name_of(peer), peer.line.closed))
            elif now - peer.line.heard > self._timeout:
                self._all_fail("%s hangs: no sign of life for %d s" % (self._name_of(peer), now - peer.line.heard))

    def _all_fail(self, text):
        """Tells the others, and ends this process."""
        if self._left or self._failed_at is not None:  # this worker ends already, with a line of its own
            return
        if self.is_chief:
            for peer in self._peers.values():
                peer.line.send(failed=text)
            self._flush(2)
        self._end("%s; all workers stop: start all again to go on from the last checkpoint" % text, EXIT_CODE)

    def _report_failure(self, text):
        """Tells the others that this worker fails; ends the process if the main thread then does not."""
        if self._failure is not None and self._failed_at is None:
            for peer in self._peers.values():
                peer.line.send(failed=text)
            self._flush(2)
            self._failed_at = time.monotonic()
        if self._failed_at is not None and time.monotonic() - self._failed_at > self._timeout:
            self._end(self._failure, 1)

    def _end(self, line, code):
        """Ends the process, whatever the main thread is in."""
        os.write(2, ("error: %s\n" % _one_line(line)).encode())
        os._exit(code)

    def _flush(self, seconds):
        until = time.monotonic() + seconds
        while not all([peer.line.flush() for peer in self._peers.values()]) and time.monotonic() < until:
            time.sleep(.01)

    def _close(self):
        self._flush(5)
        for line in [peer.line for peer in self._peers.values()] + self._unnamed:
            line.close()
        if self._listener is not None:
            self._listener.close()
        with self._changed:
            self._changed.notify_all()

    def _name_of(self, peer):
        return next(self.name(index) for index, other in self._peers.items() if other is peer)


class _Peer(object):
    """A worker at the other end of a connection."""

    def __init__(self, line):
        self.line = line
        self.facts = self.started = self.told = None
        self.done = False


def _default_port(port):
    return port + DEFAULT_PORT_OFFSET if port + DEFAULT_PORT_OFFSET < 2**16 else port - DEFAULT_PORT_OFFSET


def _listed(hosts):
    return ",".join(map(str, hosts)) if isinstance(hosts, list) else repr(hosts)


def _shown(value):
    text = str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _one_line(text):
    return " ".join(str(text).split())
