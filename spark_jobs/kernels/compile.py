"""Numba's compiler for all kernels: without the GIL, machine code cached on disk for the next process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn, TypeVar, cast

from numba import njit
from numba.core import config
from numba.core.registry import CPUDispatcher

from spark_jobs.kernels.cache import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])

# Without numba's reference counting a loop over many columns is nine times as fast. In return no kernel
# allocates: the caller provides every array, which then also outlives the call.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
# Numba would make each function callable from Python and from C. Kernels are not called from C, helpers from
# neither: without these wrappers everything compiles in two thirds of the time.
_KERNEL: dict[str, Any] = {**_OPTIONS, "no_cfunc_wrapper": True}
_HELPER: dict[str, Any] = {**_KERNEL, "no_cpython_wrapper": True}
_SETTING = RLock()


CACHE_DIRECTORY = cache_directory()


@contextmanager
def _cached_in(folder: Path) -> Iterator[None]:
    """Numba reads its setting when a function is decorated; other users of numba keep theirs.

    Threads may import kernels at the same time, so the setting is changed under a lock.
    """
    settings = vars(config)
    with _SETTING:
        before = settings["CACHE_DIR"]
        settings["CACHE_DIR"] = str(folder)
        try:
            yield
        finally:
            settings["CACHE_DIR"] = before


_cached: list[Any] = []


def kernel(function: Function) -> Function:
    """A function that Python calls: compiled at its first call, or loaded from the cache."""
    if CACHE_DIRECTORY is None:
        return cast("Function", njit(**_KERNEL)(function))
    with _cached_in(CACHE_DIRECTORY):
        dispatcher = njit(cache=True, **_KERNEL)(function)
    _cached.append(dispatcher)
    return cast("Function", dispatcher)


def _refuse(dispatcher: Any, *_: object) -> NoReturn:
    raise TypeError(f"{dispatcher.py_func.__qualname__} is a helper: only kernels can call it")


_Helper = type("_Helper", (CPUDispatcher,), {"__call__": _refuse})
"""A call without the wrapper for Python would end the process (numba issue 2541), so it is refused."""


def _uncallable(dispatcher: Any) -> Any:
    dispatcher.__class__ = _Helper  # `njit` has no parameter for the class that it creates
    return dispatcher


def helper(function: Function) -> Function:
    """A function that only kernels call: it becomes part of their machine code."""
    return cast("Function", _uncallable(njit(**_HELPER)(function)))


def inlined(function: Function) -> Function:
    """A helper that is always inlined: with many columns as arguments a call costs more than its body."""
    return cast("Function", _uncallable(njit(forceinline=True, **_HELPER)(function)))


def compiled_here() -> int:
    """How many kernels this process has compiled because the cache did not have them."""
    return sum(sum(dispatcher.stats.cache_misses.values()) for dispatcher in _cached)
