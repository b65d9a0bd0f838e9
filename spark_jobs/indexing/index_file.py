"""The rows of one index file while they are collected: counted, held for a while, written in groups."""

from typing import Protocol

import pyarrow as pa

from spark_jobs.indexing.damage import Damage
from spark_jobs.indexing.piece import Example
from spark_jobs.indexing.rows import RowBuffer
from spark_jobs.indexing.walk import Stretch

ROWS_PER_GROUP = 1 << 17
"""Rows held before they are written: about 12 MB."""
MOST_EXAMPLES = 3


class RowOutput(Protocol):
    """Where rows go, group by group."""

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`."""

    def prune(self) -> None:
        """Drop everything that was written so far."""


class IndexFile:
    """Collects rows in arrival order into `output`."""

    def __init__(self, output: RowOutput) -> None:
        self._output = output
        self.restart()

    def restart(self) -> None:
        """Forget every row."""
        self._output.prune()
        self._buffer = RowBuffer()
        self.rows = self.problems = 0
        self.examples: tuple[Example, ...] = ()

    def add(self, object_order: int, stretch: Stretch) -> None:
        """The rows of `stretch`, which is in the object of that order."""
        self._buffer.add(object_order, stretch)
        self.rows += stretch.columns.rows
        self._count(object_order, *stretch.damaged)
        if stretch.damage is not None:
            self.add_damage(object_order, stretch.damage)
        if self._buffer.rows >= ROWS_PER_GROUP:
            self._output.write(self._buffer.take())

    def add_damage(self, object_order: int, damage: Damage) -> None:
        """One row for bytes that are not a valid batch."""
        self._buffer.add_damage(object_order, damage)
        self.rows += 1
        self._count(object_order, damage)

    def flush(self) -> None:
        """Write what is still held."""
        if self._buffer.rows:
            self._output.write(self._buffer.take())

    def _count(self, object_order: int, *damages: Damage) -> None:
        self.problems += len(damages)
        reported = (Example(object_order=object_order, damage=damage) for damage in damages[:MOST_EXAMPLES])
        self.examples = (*self.examples, *reported)[:MOST_EXAMPLES]
