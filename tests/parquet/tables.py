"""Tables of every type that the writer knows, and what becomes of them."""

from collections.abc import Iterable
from datetime import date
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from spark_jobs.parquet.writer import ParquetWriter
from spark_jobs.tables.records import HEADERS_TYPE
from tests.protocol.strategies import INT32, INT64

_BYTES = st.binary(max_size=20)
_TEXT = st.text(max_size=6)
_FEW = st.sampled_from(("", "a", "ab", "é"))
_COLUMNS: "dict[str, tuple[pa.DataType, bool, st.SearchStrategy[Any]]]" = {
    "int32": (pa.int32(), False, INT32),
    "int64": (pa.int64(), False, INT64),
    "close": (pa.int64(), False, st.integers(10**12, 10**12 + 3)),
    "maybe_int64": (pa.int64(), True, st.none() | INT64),
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
