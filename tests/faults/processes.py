"""Processes of this machine, found by what they are called with."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

ENDED = [b"Z", b"X"]
"""States of a process that only waits for its parent to hear of its end."""


def kill(pids: Iterable[int]) -> None:
    """Ends them without a warning; returns when they have ended, by this or before."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while (_fields(pid) or ENDED)[0] not in ENDED:
            time.sleep(0.01)


def called_with(*words: str) -> list[int]:
    """Those whose command holds all of `words` as arguments or parts of one."""
    return [pid for pid in _all() if all(word.encode() in _read(pid, "cmdline") for word in words)]


def below(pids: Iterable[int], ancestor: int) -> list[int]:
    """Those that `ancestor` has started, by itself or by others."""
    return [pid for pid in pids if _is_below(pid, ancestor)]


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        fields = _fields(pid)
        pid = int(fields[1]) if fields else 0
    return pid == ancestor


def _fields(pid: int) -> list[bytes]:
    """State, parent and more; nothing of a process that is gone."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _all() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
