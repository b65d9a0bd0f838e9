"""What compiled kernels cost a Python worker of Spark that stays loaded: its garbage collections."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def imports_frozen() -> Iterator[None]:
    """Excludes imported modules from garbage collection, which pyspark runs after each task.

    A collection takes about 50 ms where numba and pandas are loaded.
    """
    _freeze(len(sys.modules))
    try:
        yield
    finally:
        _freeze(len(sys.modules))


@cache
def _freeze(_: int) -> None:
    """Once per number of imported modules: pyspark imports some of its own after the first task."""
    gc.collect()
    gc.freeze()
