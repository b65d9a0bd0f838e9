"""Work on millions of small values, none of which refers back to another."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for cycles meanwhile: there are none, and looking takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
