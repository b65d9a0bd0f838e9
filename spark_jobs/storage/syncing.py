"""Files on their way to the disk: waited for, or only sent off while others are still being written."""

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

LARGE_BYTES = 2**20
"""Thousands of small files are better left to the system, which writes neighbours together."""
_WRITE = 2
"""Of Linux' sync_file_range: begin to write what is dirty, and wait for nothing."""


def sync(path: Path) -> None:
    """Returns when the file or directory is on the disk."""
    with _opened(path) as file:
        os.fsync(file)


def begin_sync(path: Path) -> None:
    """The disk begins with a large file now, not in half a minute; where this cannot be said, nothing.

    A thread says it: a disk that has enough to do lets whoever speaks to it wait.
    """
    send = _sync_file_range()
    if send is not None and path.stat().st_size >= LARGE_BYTES:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _speaker().submit(_send_off, send, file)


def _send_off(send: Callable[..., int], file: int) -> None:
    try:
        send(file, 0, 0, _WRITE)
    finally:
        os.close(file)


@cache
def _speaker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="sync")


@cache
def _sync_file_range() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)
