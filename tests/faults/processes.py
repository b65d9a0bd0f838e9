"""Processes of this machine, found by what they are called with."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path


def kill(pids: Iterable[int]) -> None:
    """Ends them without a warning."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def called_with(*words: str) -> list[int]:
    """Those whose command holds all of `words` as arguments or parts of one."""
    return [pid for pid in _all() if all(word.encode() in _read(pid, "cmdline") for word in words)]


def below(pids: Iterable[int], ancestor: int) -> list[int]:
    """Those that `ancestor` has started, by itself or by others."""
    return [pid for pid in pids if _is_below(pid, ancestor)]


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if fields else 0
    return pid == ancestor


def _all() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
