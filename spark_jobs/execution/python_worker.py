"""What runs in Spark's Python workers: functions of record batches and groups around the functions of steps.

A terminal error is a result, so that Spark neither repeats the task nor changes the error's text.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any, TypeVar

import pyarrow as pa

from spark_jobs.execution.shuffle import GroupRows, Note, TaskRows, split_notes, with_notes
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kernels.imports import imports_frozen

Task = TypeVar("Task")
Summary = TypeVar("Summary")
Batches = Iterable[pa.RecordBatch]
Key = tuple[Any, ...]

TASKS = pa.schema([("number", pa.int64())]).append(pa.field("task", pa.binary()))
OUTCOMES = pa.schema([("number", pa.int64())]).append(pa.field("outcome", pa.binary()))
SUMMARIES = pa.schema({"summary": pa.binary()})
ROWS_PER_BATCH = 1 << 16
"""Rows that the JVM takes at a time."""


def to_bytes(value: object) -> bytes:
    """A value on its way between the driver and its own workers; such bytes are never stored."""
    return pickle.dumps(value)


def from_bytes(data: bytes) -> Any:
    """The value that the other side sent; Spark moves its own functions and values in the same way."""
    return pickle.loads(data)  # noqa: S301 — from our own driver or workers


def task_table(tasks: Sequence[Any]) -> pa.Table:
    """Tasks as rows, numbered."""
    return pa.table({"number": range(len(tasks)), "task": list(map(to_bytes, tasks))}, TASKS)


def outcomes_of(function: Callable[[Task], Summary]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: `function` of each task of TASKS, as OUTCOMES."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number, task in _tasks(batches):
            with imports_frozen():
                outcome = to_bytes(_attempt(function, task))
            yield pa.RecordBatch.from_pydict({"number": [number], "outcome": [outcome]}, OUTCOMES)

    return run


def rows_of(rows: TaskRows) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: the rows of each task of TASKS."""
    function, schema = rows.function, rows.schema

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, task in _tasks(batches):
            with imports_frozen():
                for table in _rows(function, task, schema):
                    yield from table.combine_chunks().to_batches(ROWS_PER_BATCH)

    return run


def _tasks(batches: Batches) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        yield from ((row["number"], from_bytes(row["task"])) for row in batch.to_pylist())


def _rows(
    function: Callable[[Any], Iterable[pa.Table | Note]], task: Any, schema: pa.Schema
) -> Iterator[pa.Table]:
    """What `function` yields as it travels; an error travels as a note."""
    try:
        for found in function(task):
            if isinstance(found, Note):
                yield with_notes(schema.empty_table(), schema, [to_bytes(found)])
            else:
                yield with_notes(found, schema)
    except OnceoverError as error:
        if error.transient:
            raise
        yield with_notes(schema.empty_table(), schema, [to_bytes(error)])


def group_of(rows: GroupRows) -> Callable[..., pa.Table]:
    """For `applyInArrow`: `rows.function` of a group or a cogroup; a null key has the notes."""
    schemas, function, schema = [side.schema for side in rows.sides], rows.function, rows.schema

    def run(key: Key, tables: Sequence[pa.Table]) -> pa.Table:
        split = list(starmap(split_notes, zip(tables, schemas, strict=True)))
        notes = [note for _, found in split for note in found]
        value = key[0].as_py()
        if value is None:
            return with_notes(schema.empty_table(), schema, notes)
        with imports_frozen():
            found = _attempt(lambda groups: function(value, *groups), [table for table, _ in split])
        if isinstance(found, OnceoverError):
            return with_notes(schema.empty_table(), schema, [to_bytes(found)])
        return with_notes(found, schema)

    # Spark counts arguments.
    def run_one(key: Key, table: pa.Table) -> pa.Table:
        return run(key, [table])

    def run_two(key: Key, left: pa.Table, right: pa.Table) -> pa.Table:
        return run(key, [left, right])

    return run_one if len(schemas) == 1 else run_two


def summary_row(function: Callable[..., Summary], key: Any, *groups: pa.Table) -> pa.Table:
    """The last group of a shuffle: what `function` returns of it, with its key."""
    return pa.table({"summary": [to_bytes((key, function(key, *groups)))]}, SUMMARIES)


def _attempt(function: Callable[[Task], Summary], task: Task) -> Summary | OnceoverError:
    try:
        return function(task)
    except OnceoverError as error:
        if error.transient:
            raise
        return error
