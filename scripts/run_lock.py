"""One run at a time in a model_dir: a lock that ends with the process, however that ends.

The lock is `flock` on MODEL_DIR/run.lock, which says in JSON who holds it. The kernel gives it up when the process is gone,
so a killed run leaves nothing that has to be removed by hand; a file that is there without its lock means nothing.
Evaluating, predicting and exporting only read, and take no lock.
"""

import atexit
import errno
import json
import os
import socket
import sys
import tempfile

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

FILE_NAME = "run.lock"

_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)

_locks = {}  # by real path: the file objects that hold this process's locks


def check_writable(model_dir):
    """ValueError unless files can be made in model_dir, or in the folder that it would be made in. Leaves nothing there."""
    folder = os.path.abspath(model_dir)
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
    except OSError as error:
        where = "" if folder == os.path.abspath(model_dir) else ": {}".format(folder)
        raise ValueError("--model_dir={} cannot be written{} ({}): make room or give the right to, or name another".format(
            model_dir, where, error.strerror or error)) from error


def take(model_dir, say=lambda line: print(line, file=sys.stderr)):
    """Takes the lock of a model_dir that is there, for as long as this process lives; no matter if it has it already.

    Args:
        model_dir: the folder.
        say: called with a line where the file system has no locks; the run goes on without.

    Raises:
        ValueError: another run has it; with its process and host.
    """
    path = os.path.join(os.path.realpath(model_dir), FILE_NAME)
    if path in _locks:
        return
    while True:
        file = open(path, "a+")
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, "this system has no flock")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                file.close()
                os.remove(path)
                say("note: {} is on a file system without locks ({}): see to it that no other run uses it".format(
                    model_dir, error.strerror))
                return
            if error.errno not in _HELD:
                raise
            holder = _holder(file)
            file.close()
            raise ValueError("--model_dir={} is in use by another run, {}: wait for it or stop it, or name another "
                             "folder".format(model_dir, holder)) from error
        if _is_still(file, path):
            break
        file.close()  # the run that held it has just ended, and took the file away
    file.truncate(0)
    json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)
    file.flush()
    _locks[path] = file
    atexit.register(release, model_dir)


def release(model_dir):
    """Gives the lock up and removes its file; nothing where this process has none."""
    path = os.path.join(os.path.realpath(model_dir), FILE_NAME)
    file = _locks.pop(path, None)
    if file is None:
        return
    try:
        if _is_still(file, path):
            os.remove(path)  # while it is locked: whoever opened it meanwhile sees that it is gone, and makes another
    except OSError:
        pass  # the folder is gone or cannot be written any more: the lock ends with the file's closing
    file.close()


def release_all():
    """Gives up every lock of this process."""
    for path in list(_locks):
        release(os.path.dirname(path))


def _is_still(file, path):
    """Whether `path` names the file that is open as `file`."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(file):
    """Who holds the lock, as its file says."""
    file.seek(0)
    try:
        holder = json.load(file)
        return "process {} on {}".format(holder["pid"], holder["host"])
    except (ValueError, KeyError, TypeError):  # it has the lock and has not yet written who it is
        return "which has just started"
