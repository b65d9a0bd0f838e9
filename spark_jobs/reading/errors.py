"""What a reader of a log refuses, and what it warns of."""

import inspect
import warnings
from types import FrameType

from spark_jobs.kafka.errors import OnceoverError

_OWN_PACKAGES = ("spark_jobs", "onceover")


class NotKafka(OnceoverError):
    """A path without Kafka data; the message names what was expected."""


class Undecided(OnceoverError):
    """Records of a transaction whose marker is not in what was given to read."""


class UnknownOption(OnceoverError, ValueError):
    """An argument or option with a name or value that does not exist; the message lists those that do."""


class TornTail(UserWarning):
    """The log ends with bytes that are no whole batch, as after a crash: they are left out."""


class TierEnds(UserWarning):
    """The log goes on where its uploads to tiered storage end, or lacks some of them."""


def warn_caller(warning: Warning) -> None:
    """Warns at every read, at the caller's line: Python shows the same warning of one place only once."""
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None and _module(frame).partition(".")[0] in _OWN_PACKAGES:
        frame = frame.f_back
    warnings.warn_explicit(
        warning, None, frame.f_code.co_filename, frame.f_lineno, module=_module(frame), registry={}
    )


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
