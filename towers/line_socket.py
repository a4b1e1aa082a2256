"""Messages between workers apart from the step: JSON objects, one a line, over a TCP socket that never blocks."""

import json
import socket
import time

_MOST_BYTES = 4 * 2**20  # of one message


class LineSocket(object):
    """One connection.

    Args:
      connected: a connected `socket.socket`, which this takes over.

    Attributes:
      closed: why nothing more comes (text), or None while the connection stands.
      heard: when something last came, by `time.monotonic()`.
    """

    def __init__(self, connected):
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self.closed = None
        self.heard = time.monotonic()
        self._in, self._out = b"", b""

    def send(self, **message):
        """Sends what the socket takes now; the rest goes with the next `flush`."""
        self._out += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self):
        """Sends more of what waits; returns whether nothing waits any more."""
        try:
            while self._out and self.closed is None:
                self._out = self._out[self.socket.send(self._out):]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.closed = error.strerror or str(error)
        return not self._out or self.closed is not None

    def receive(self):
        """The messages that have come, a list of dicts."""
        try:
            while self.closed is None:
                data = self.socket.recv(2**16)
                if not data:
                    self.closed = "its connection ended"
                self._in += data
                self.heard = time.monotonic()
                if len(self._in) > _MOST_BYTES:
                    self.closed = "it sent what is no message"
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.closed = error.strerror or str(error)
        *lines, self._in = self._in.split(b"\n")
        try:
            messages = [json.loads(line.decode()) for line in lines]
            if all(isinstance(message, dict) for message in messages):
                return messages
        except ValueError:
            pass
        self.closed = "it sent what is no message"
        return []

    def close(self):
        """Closes the socket."""
        self.closed = self.closed or "closed here"
        self.socket.close()


def listen(host, port):
    """A listening socket on all addresses of this machine, of the family that `host` is written in.

    Raises:
      OSError: the port is in use, or not allowed.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a run before may linger
        listener.bind(("", port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def connect(host, port, seconds):
    """A `LineSocket`; OSError where no one answers within so many seconds."""
    return LineSocket(socket.create_connection((host, port), seconds))
