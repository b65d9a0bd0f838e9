"""Tables of every type that the writer knows, and what becomes of them."""

from collections.abc import Iterable
from datetime import UTC, date
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from spark_jobs.kernels.memory import read_only
from spark_jobs.parquet.shreds import Shred, edges
from spark_jobs.parquet.values import Named, Numbers
from spark_jobs.parquet.writer import ParquetWriter
from spark_jobs.tables.materialise import HEADERS_TYPE
from tests.protocol.strategies import INT32, INT64

_BYTES = st.binary(max_size=20)
_TIMES = st.datetimes(timezones=st.just(UTC))
_TEXT = st.text(max_size=6)
_FEW = st.sampled_from(("", "a", "ab", "é"))
_COLUMNS: "dict[str, tuple[pa.DataType, bool, st.SearchStrategy[Any]]]" = {
    "int32": (pa.int32(), False, INT32),
    "int64": (pa.int64(), False, INT64),
    "close": (pa.int64(), False, st.integers(10**12, 10**12 + 3)),
    "maybe_int64": (pa.int64(), True, st.none() | INT64),
    "timestamp": (pa.timestamp("us", "UTC"), False, _TIMES),
    "maybe_timestamp": (pa.timestamp("us", "UTC"), True, st.none() | _TIMES),
    "date": (pa.date32(), False, st.dates(date(1970, 1, 1))),
    "double": (pa.float64(), True, st.none() | st.floats(allow_nan=False)),
    "flag": (pa.bool_(), True, st.none() | st.booleans()),
    "bytes": (pa.binary(), False, _BYTES),
    "maybe_bytes": (pa.binary(), True, st.none() | _BYTES),
    "text": (pa.string(), True, st.none() | _TEXT),
    "few": (pa.dictionary(pa.int8(), pa.string()), False, _FEW),
    "maybe_few": (pa.dictionary(pa.int32(), pa.string()), True, st.none() | _FEW),
    "headers": (
        HEADERS_TYPE,
        False,
        st.lists(st.fixed_dictionaries({"key": _TEXT, "value": st.none() | _BYTES}), max_size=3),
    ),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable) for name, (kind, nullable, _) in _COLUMNS.items()])
PLAIN_SCHEMA = pa.schema(
    [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in SCHEMA]
)
"""What readers get."""
ROWS = st.lists(
    st.fixed_dictionaries({name: values for name, (_, _, values) in _COLUMNS.items()}), max_size=60
)
TABLES = st.lists(ROWS.map(lambda rows: pa.Table.from_pylist(rows, schema=SCHEMA)), max_size=4)


def written(tables: Iterable[pa.Table], schema: pa.Schema = SCHEMA) -> bytes:
    """A file with all `tables`."""
    output = BytesIO()
    writer = ParquetWriter(output, schema)
    for table in tables:
        writer.write_table(table)
    writer.close()
    return output.getvalue()


def read(data: bytes) -> pa.Table:
    """By Arrow, which checks every page's checksum."""
    return pq.ParquetFile(BytesIO(data), page_checksum_verification=True).read()


_RUN_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("int32", pa.int32(), nullable=False),
    pa.field("int64", pa.int64(), nullable=False),
    pa.field("date", pa.date32(), nullable=False),
    pa.field("text", pa.string()),
]
RUNS = pa.schema(_RUN_FIELDS)
"""Of columns that are given as runs."""
_PLAIN_RUN_FIELDS: "list[tuple[str, pa.DataType]]" = [
    ("int32", pa.int32()),
    ("int64", pa.int64()),
    ("date", pa.int32()),
    ("text", pa.binary()),
]
_PLAIN_RUNS = pa.schema(_PLAIN_RUN_FIELDS)


def runs(*lengths: int) -> tuple[bytes, pa.Table]:
    """A file of runs of those lengths, and what it holds."""
    numbers, counts = np.arange(len(lengths), dtype=np.int32) % 3, np.array(lengths, dtype=np.int64)
    rows, is_there = int(counts.sum()), numbers != 1
    names: dict[str, list[Any]] = {
        "int32": [7, -(2**31), 2**31 - 1],
        "int64": [-1, -(2**63), 2**63 - 1],
        "date": [0, 1, 19_844],
        "text": [b"first", None, b"third"],
    }
    leaves = [Shred(rows=rows, values=Named(names[name], numbers, counts)) for name in RUNS.names[:3]]
    definition = np.repeat(is_there.view(np.uint8), counts)
    texts = Named([b"first", b"third"], numbers[is_there] // 2, counts[is_there])
    leaves.append(Shred(rows=rows, values=texts, definition=definition, row_values=edges(definition)))
    output = BytesIO()
    writer = ParquetWriter(output, RUNS)
    writer.write_leaves(leaves)
    writer.close()
    plain = {name: [names[name][each] for each in np.repeat(numbers, counts)] for name in RUNS.names}
    return output.getvalue(), pa.table(plain, schema=_PLAIN_RUNS).cast(RUNS)


_NUMBER: "list[pa.Field[Any]]" = [pa.field("number", pa.int64(), nullable=False)]


def mixed(parts: str, rows: int) -> tuple[bytes, list[int]]:
    """A file, and what it holds.

    For each part `rows` of the same number as a run (r) or one by one (o), or of different numbers (n).
    """
    output = BytesIO()
    writer, found = ParquetWriter(output, pa.schema(_NUMBER)), list[int]()
    for place, part in enumerate(parts):
        numbers = np.arange(rows) + 100 * place if part == "n" else np.full(rows, place % 2)
        run = Named([place % 2], np.zeros(1, dtype=np.int32), np.array([rows], dtype=np.int64))
        writer.write_leaves(
            [Shred(rows=rows, values=run if part == "r" else Numbers(read_only(numbers, np.int64)))]
        )
        found += numbers.tolist()
    writer.close()
    return output.getvalue(), found


_NUMBER_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("number", pa.int64(), nullable=False),
    pa.field("value", pa.binary()),
]
NUMBERS = pa.schema(_NUMBER_FIELDS)


def numbers(count: int) -> pa.Table:
    """Ascending numbers, and values of which some are null, and seven in a row."""
    values = [
        None if row % 5 == 0 or row % 40 < 7 else b"%05d" % (row * 7919 % 10_000) for row in range(count)
    ]
    return pa.table({"number": range(count), "value": pa.array(values, pa.binary())}, schema=NUMBERS)
