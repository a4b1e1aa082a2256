"""How every script starts and how it fails: one clear line on standard error, and an exit code.

    0    done (also a run that was told to stop by SIGTERM and saved)
    1    what was asked cannot be done: a missing image, a checkpoint of another network, ...
    2    the command line or the configuration is wrong
    3    another worker of a run on several died, hangs or failed
    130  interrupted from the keyboard

`--traceback` shows where an error came from. An error of any other kind is a fault of the program and keeps
its traceback.
"""

import contextlib
import logging
import os
import re
import sys
import traceback
import warnings

from absl import app, flags
from absl import logging as absl_logging

FLAGS = flags.FLAGS
flags.DEFINE_bool("traceback", False, "Show the whole traceback of an error instead of one line.")


failure_listeners = []  # each is called with the line that a script fails with, before it ends

_CONFIGURATION_MODULE = "config_config"  # ml_collections' name for the module that --config names


class UsageError(ValueError):
    """The command line or the configuration is wrong: exit code 2."""


def quiet_tensorflow():
    """Imports TensorFlow without the lines it prints as it starts, which no log level silences.

    Errors are unaffected: they are exceptions.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            import tensorflow

            tensorflow.config.list_physical_devices("GPU")  # complains once where there is no driver
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    # It also warns of every TensorFlow 1 name, and MonitoredTrainingSession tells of every file it writes.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def run(main, positional=False):
    """Parses the flags and calls `main()`; `main(arguments)` if the script takes arguments besides flags."""

    absl_logging.set_verbosity(absl_logging.ERROR)  # what it warns of while it parses flags is an error here as well

    def guarded(argv):
        if argv[1:] and not positional:
            _fail(UsageError("{!r} is no flag (flags are written --name=value)".format(argv[1])))
        for stream in (sys.stdout, sys.stderr):  # a file's name need not be text: show what is none as escapes
            stream.reconfigure(errors="backslashreplace")
        # Below PIL's limit an image is read, however large; above it PIL raises.
        warnings.filterwarnings("ignore", message=r"Image size \(\d+ pixels\) exceeds limit")
        if not FLAGS["verbosity"].present:
            absl_logging.set_verbosity(absl_logging.WARNING)
        try:
            main(argv[1:]) if positional else main()
        except (ValueError, OSError) as error:
            _fail(error)
        except KeyboardInterrupt:
            print("\ninterrupted", file=sys.stderr)
            sys.exit(130)
        except Exception as error:  # TensorFlow's errors at run time; its import is left to the scripts
            if not any(kind.__name__ == "OpError" for kind in type(error).__mro__):
                raise
            from inputs import decoding

            _fail(decoding.data_error(error) or error)

    app.run(guarded, flags_parser=_parse)


def one_line(error):
    """The message of an error in one line; of TensorFlow's report of a failed graph, what failed first."""
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = "cannot use {}: {}".format(error.filename, error.strerror)
    root = re.search(r"\(0\) [A-Z_]+: (.*)", text)
    lines = [root.group(1)] if root else text.splitlines()
    told = [
        line
        for line in lines
        if not re.match(r"\s*(Graph execution error|Detected at node|File \"|Node:)", line)
    ]
    return " ".join(re.split(r"\[\[|Errors may have|Original stack trace", " ".join(told))[0].split())


@contextlib.contextmanager
def usage_errors():
    """Around whatever reads the command line: its errors end the program in one line, with exit code 2."""
    try:
        yield
    # ml_collections reports a misspelt setting as AttributeError or KeyError and a wrong type as TypeError.
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        text = str(error)
        place, cause = (None, error) if isinstance(error, UsageError) else _in_configuration(error)
        missing = re.search(r"Failed loading config file.*No such file or directory: (.*)", text, re.DOTALL)
        inside = re.search(r"Attribute <class '(.*?)'>\.(\w+) does not exist .*lookup: ([\w.]+)", text)
        meant = re.search(r'Did you mean "(.*?)" instead of "(.*?)"', text)
        if place:
            text = _failed_there(place, cause)
        elif text.startswith("Unexpected None value for flag config"):
            text = "get_config() of the configuration file returns None: it must return a ConfigDict, as those in configs/ do"
        elif missing:
            text = "no configuration file at {}".format(missing.group(1))
        elif re.search(r"module .* has no attribute 'get_config'", text):
            text = "the file that --config names has no function get_config(): give a configuration, as those in configs/"
        elif meant:
            text = "the configuration has no setting {1!r}: did you mean {0!r}?".format(*meant.groups())
        elif inside:
            text = "the configuration has no setting {2!r}: {1!r} cannot be set inside a value of type {0}".format(
                *inside.groups())
        elif isinstance(error, KeyError):
            text = "the configuration has no setting {}".format(re.sub(r"\W", "", text))
        _fail(UsageError(text).with_traceback(error.__traceback__))


def _parse(argv):
    with usage_errors():
        try:
            return FLAGS(argv)
        except (Exception, SystemExit) as error:
            place, cause = _in_configuration(error)
            if place is None:
                raise
            raise UsageError(_failed_there(place, cause)) from error


def _in_configuration(error):
    """(place in a configuration file, the error that arose there), or (None, error): absl runs the file of --config while it
    parses flags, and some errors it wraps into others.
    """
    cause = error
    while cause is not None:
        if isinstance(cause, SyntaxError):
            return "configuration file {}, line {}".format(cause.filename, cause.lineno), cause
        for frame, line in traceback.walk_tb(cause.__traceback__):
            if frame.f_globals.get("__name__") == _CONFIGURATION_MODULE:
                return "configuration file {}, line {}".format(frame.f_code.co_filename, line), cause
        cause = cause.__cause__ or cause.__context__
    return None, error


def _failed_there(place, error):
    return "{}: {}: {}".format(place, type(error).__name__, getattr(error, "msg", None) or error)


def _fail(error):
    if "--traceback" in sys.argv:
        raise error
    line = one_line(error)
    for listener in failure_listeners:
        listener(line)
    print("error: " + line, file=sys.stderr)
    sys.exit(2 if isinstance(error, UsageError) else 1)
