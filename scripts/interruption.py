"""SIGTERM outside of the session loop, and either signal during an evaluation inside it.

While a run starts, or is scored when it is finished, nothing is lost, so the process ends at once, by the signal, as one
that has no handler. Inside the loop `towers.session.StopOnSignal` takes the signals over, saves, and puts this one back;
an evaluation that is under way then ends between two images, and is made up for when the run goes on.
"""

import os
import signal
import sys

from scripts import run_lock


class Interrupted(Exception):
    """An evaluation has ended early: the run is to stop."""


def end_at_once_on_sigterm():
    """Installs the handler."""
    signal.signal(signal.SIGTERM, _end)


def _end(number, frame):
    run_lock.release_all()
    print("stopped by SIGTERM outside of the steps: there is nothing to save", file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
