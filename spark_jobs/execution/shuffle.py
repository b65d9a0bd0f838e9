"""A shuffle as a value: tasks that yield Arrow rows, groups by a key column, functions of whole groups.

`Spark.shuffle` runs it as `mapInArrow`, `groupBy` or `cogroup` and `applyInArrow`; `shuffle_in_driver` gives
the same result in this process. Three rules make the result independent of partitions, adaptive execution
and retries:

- A group's rows arrive in no particular order: a function sorts them where order matters.
- Functions are module-level functions, or `functools.partial` of one with facts that every task needs: a
  function is pickled once per job, whereas a task is pickled on its own.
- What a function writes is named by its task or key and replaced atomically, since Spark can run it again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

Summary = TypeVar("Summary")

NOTE = "_note"
"""Column beside the rows, null but in rows that have a pickled note or error instead; their key is null."""


@dataclass(frozen=True, slots=True)
class Note:
    """A small value that a function of tasks yields among its rows; it reaches the driver as it is."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """The rows that `function(task)` yields as tables, one Spark task per task; notes can be among them."""

    function: Callable[[Any], Iterable[pa.Table | Note]]
    tasks: Sequence[Any]
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """The rows of `function(key, table, ...)` for each key: a table per side, empty if it lacks the key."""

    sides: tuple["Rows", ...]
    key: str
    function: Callable[..., pa.Table]
    schema: pa.Schema


Rows = TaskRows | GroupRows


@dataclass(frozen=True, slots=True)
class Shuffled(Generic[Summary]):
    """One summary per key, in order of keys, and the values of all notes, in no particular order."""

    summaries: list[Summary]
    notes: list[Any] = field(default_factory=list)


def shuffle_in_driver(
    sides: Sequence[Rows], *, key: str, function: Callable[..., Summary]
) -> Shuffled[Summary]:
    """What `Spark.shuffle` gives, without Spark: for what is too little to schedule."""
    notes: list[Any] = []
    tables = [_rows_in_driver(side, notes) for side in sides]
    summaries = [function(value, *group) for value, group in _groups(tables, key)]
    return Shuffled(summaries, notes)


def _rows_in_driver(rows: Rows, notes: list[Any]) -> pa.Table:
    if isinstance(rows, GroupRows):
        tables = [_rows_in_driver(side, notes) for side in rows.sides]
        found = [rows.function(value, *group) for value, group in _groups(tables, rows.key)]
    else:
        yielded = list(chain.from_iterable(map(rows.function, rows.tasks)))
        notes += [each.value for each in yielded if isinstance(each, Note)]
        found = [each for each in yielded if not isinstance(each, Note)]
    return pa.concat_tables([rows.schema.empty_table(), *(conform(each, rows.schema) for each in found)])


def _groups(tables: Sequence[pa.Table], key: str) -> Iterator[tuple[Any, list[pa.Table]]]:
    """Each key with its rows of every table, in order of keys."""
    divided = [dict(_divide(table, key)) for table in tables]
    for value in sorted(set(chain.from_iterable(divided))):
        yield value, [each.get(value, table.slice(0, 0)) for each, table in zip(divided, tables, strict=True)]


def _divide(table: pa.Table, key: str) -> Iterator[tuple[Any, pa.Table]]:
    ordered, start = table.sort_by(key), 0
    for value, together in groupby(ordered[key].to_pylist()):
        length = sum(1 for _ in together)
        yield value, ordered.slice(start, length)
        start += length


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` in its order and types."""
    return table.select(schema.names).cast(schema)


def split_notes(table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, list[bytes]]:
    """Rows of `schema` and the notes that came with them."""
    notes: list[Any] = table[NOTE].drop_null().to_pylist()
    rows = table.filter(pc.is_null(table[NOTE])) if notes else table
    return conform(rows, schema), notes


def with_notes(table: pa.Table, schema: pa.Schema, notes: Sequence[bytes] = ()) -> pa.Table:
    """Rows as they travel through Spark: in its types, notes in rows of their own behind them."""
    travelling = travel_schema(schema)
    rows = conform(table, schema).append_column(NOTE, pa.nulls(table.num_rows, pa.binary())).cast(travelling)
    if not notes:
        return rows
    empty = {each.name: pa.nulls(len(notes), each.type) for each in travelling if each.name != NOTE}
    return pa.concat_tables([rows, pa.table({**empty, NOTE: pa.array(notes, pa.binary())}, travelling)])


def travel_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` as Spark's Arrow has it, every column nullable, and the column of notes."""
    fields = [pa.field(each.name, _travel_type(each.type)) for each in schema]
    return pa.schema([*fields, pa.field(NOTE, pa.binary())])


def ddl(schema: pa.Schema) -> str:
    """The schema as Spark's API takes it."""
    return ", ".join(f"`{each.name}` {_ddl_type(each.type)}" for each in schema)


_DDL: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
}
_AS: Mapping[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
"""Types that Spark has not, and those in which they travel."""


def _travel_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.ListType):
        return pa.list_(pa.field("element", _travel_type(kind.value_type)))
    if isinstance(kind, pa.StructType):
        return pa.struct([pa.field(each.name, _travel_type(each.type)) for each in kind])
    if isinstance(kind, pa.DictionaryType):
        return _travel_type(kind.value_type)
    return _AS.get(kind, kind)


def _ddl_type(kind: pa.DataType) -> str:
    if isinstance(kind, pa.ListType):
        return f"array<{_ddl_type(kind.value_type)}>"
    if isinstance(kind, pa.StructType):
        return f"struct<{', '.join(f'`{each.name}`: {_ddl_type(each.type)}' for each in kind)}>"
    if kind not in _DDL:
        raise TypeError(f"{kind}: no type of Spark's for a shuffle; use one of {', '.join(map(str, _DDL))}")
    return _DDL[kind]
