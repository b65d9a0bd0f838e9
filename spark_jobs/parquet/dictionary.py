"""The dictionary of a column: it grows while rows come, and is written before the pages that point to it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spark_jobs.parquet.encoders import Indices
from spark_jobs.parquet.values import Named

LARGEST = 2**20
"""Bytes; what comes after that is written as it is."""


class Dictionary:
    """Entries in the order in which they came; `as_plain` writes one."""

    def __init__(self, as_plain: Callable[[Any], bytes]) -> None:
        self._as_plain = as_plain
        self._places: dict[Any, int] = {}
        self._plain: list[bytes] = []
        self._size = 0
        self.entries: list[Any] = []

    def indices(self, values: Named) -> Indices | None:
        """The values as places; None if there are none, or the dictionary would be too large."""
        given = np.flatnonzero(np.bincount(values.places))
        names = [values.names[place] for place in given.tolist()]
        if not names or not self._take(names):
            return None
        used = [self._places[name] for name in names]
        if used == given.tolist():
            return Indices(self.entries, used, values.places, values.lengths)
        places = np.zeros(len(values.names), dtype=np.int32)
        places[given] = used
        return Indices(self.entries, used, places[values.places], values.lengths)

    @property
    def content(self) -> bytes:
        """All entries, as their page has them."""
        return b"".join(self._plain)

    def _take(self, names: list[Any]) -> bool:
        new = [name for name in names if name not in self._places]
        plain = [self._as_plain(name) for name in new]
        size = self._size + sum(map(len, plain))
        if size > LARGEST:
            return False
        for name in new:
            self._places[name] = len(self.entries)
            self.entries.append(name)
        self._plain += plain
        self._size = size
        return True
