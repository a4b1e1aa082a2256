"""SIGTERM outside of the session loop: while a run starts, or is scored when it is finished.

Nothing is lost there, so the process ends at once, by the signal, as one that has no handler. Inside the loop
`towers.session.StopOnSignal` takes the signals over, saves, and puts this one back.
"""

import os
import signal
import sys

from scripts import run_lock


def end_at_once_on_sigterm():
    """Installs the handler."""
    signal.signal(signal.SIGTERM, _end)


def _end(number, frame):
    run_lock.release_all()
    print("stopped by SIGTERM before a step was taken: there is nothing to save", file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
