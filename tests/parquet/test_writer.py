"""Files by our own writer, read by others: the same rows, the same bounds, pages where it is said."""

import random
import struct
import tempfile
import tracemalloc
import zlib
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from spark_jobs.parquet.encoders import LONGEST_BOUND, Encoding
from spark_jobs.parquet.writer import ParquetWriter
from spark_jobs.tables.materialise import HEADERS_TYPE
from tests.parquet.compact import Compact, Fields, footer_of
from tests.parquet.tables import NUMBERS, PLAIN_SCHEMA, SCHEMA, TABLES, mixed, numbers, read, runs, written


def together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).cast(PLAIN_SCHEMA)


def by_duckdb(data: bytes) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder, "table.parquet")
        path.write_bytes(data)
        rows: list[dict[str, Any]] = connection.sql(f"SELECT * FROM '{path}'").to_arrow_table().to_pylist()
        return rows


@given(TABLES)
def test_rows_come_back_as_they_were(tables: list[pa.Table]) -> None:
    found = read(written(tables))

    assert found.schema.equals(PLAIN_SCHEMA)
    assert found.equals(together(tables))


@given(TABLES)
def test_slices_of_tables_are_written_like_tables(tables: list[pa.Table]) -> None:
    middles = [len(table) // 2 for table in tables]
    halves = [
        part
        for table, middle in zip(tables, middles, strict=True)
        for part in (table.slice(0, middle), table.slice(middle))
    ]

    assert read(written(halves)).equals(together(tables))


@settings(max_examples=20)
@given(TABLES)
def test_duckdb_reads_the_same(tables: list[pa.Table]) -> None:
    assert by_duckdb(written(tables)) == together(tables).to_pylist()


@pytest.mark.parametrize("lengths", [(1,), (1, 2, 3), (300,), (8, 1, 9, 70_000, 2, 5, 64), (5, 0, 3)])
def test_runs_come_back_row_by_row(lengths: tuple[int, ...]) -> None:
    data, expected = runs(*lengths)

    assert read(data).equals(expected)
    assert by_duckdb(data) == expected.to_pylist()


@given(TABLES)
def test_bounds_are_those_that_arrow_would_write(tables: list[pa.Table]) -> None:
    data = written(tables)
    ours, rows = pq.read_metadata(BytesIO(data)), 0
    for group in range(ours.num_row_groups):
        count, sink = ours.row_group(group).num_rows, BytesIO()
        pq.write_table(together(tables).slice(rows, count), sink)
        theirs, rows = pq.read_metadata(BytesIO(sink.getvalue())).row_group(0), rows + count
        for column in range(theirs.num_columns):
            found, expected = ours.row_group(group).column(column), theirs.column(column)
            assert found.path_in_schema == expected.path_in_schema
            assert found.num_values == expected.num_values
            assert _told(found) == _told(expected)
    assert rows == sum(map(len, tables))


def _told(column: pq.ColumnChunkMetaData) -> tuple[Any, ...]:
    """Nulls, whether there are bounds, and these."""
    told = column.statistics
    assert told is not None
    return (told.null_count, told.has_min_max, told.min, told.max)


def _index(data: bytes, chunk: Fields, offset: int) -> Fields:
    return Compact(data, chunk[offset]).struct()


def test_pages_are_where_the_index_says_with_the_rows_and_bounds_that_it_tells() -> None:
    table = numbers(500)
    data = written([table.slice(0, 210), table.slice(210)], NUMBERS)
    first = 0
    for group in footer_of(data)[4]:
        rows = table.slice(first, group[3])
        for chunk, name in zip(group[1], NUMBERS.names, strict=True):
            located, bounds = _index(data, chunk, 4)[1], _index(data, chunk, 6)
            edges = [*(place[3] for place in located), len(rows)]
            assert len(located) == len(bounds[1]) > 5
            for page, (start, stop) in enumerate(pairwise(edges)):
                expected = rows.column(name).slice(start, stop - start)
                _check_page(data, located[page], len(expected))
                _check_bounds(expected, [bounds[field][page] for field in (1, 2, 3, 5)])
        assert [_index(data, chunk, 6)[4] for chunk in group[1]] == [1, 0], "ascending, and without order"
        first += group[3]
    assert first == len(table)


def _check_page(data: bytes, place: Fields, rows: int) -> None:
    reader = Compact(data, place[1])
    header = reader.struct()
    body = data[reader.position : reader.position + header[3]]
    assert reader.position + header[3] - place[1] == place[2]
    assert header[4] & 0xFFFFFFFF == zlib.crc32(body)
    assert header[5][1] == rows


def _check_bounds(values: "pa.ChunkedArray[Any]", told: list[Any]) -> None:
    is_empty, low, high, nulls = told
    there: list[Any] = values.drop_null().to_pylist()
    assert (is_empty, nulls) == (not there, values.null_count)
    if there:
        plain = [
            each if isinstance(each, bytes) else struct.pack("<q", each) for each in (min(there), max(there))
        ]
        assert [low, high] == plain


def test_values_too_long_for_bounds_have_none() -> None:
    long = pa.table({"number": [1], "value": [b"x" * (LONGEST_BOUND + 1)]}, schema=NUMBERS)
    data = written([long], NUMBERS)

    assert read(data).equals(long)
    assert _told(pq.read_metadata(BytesIO(data)).row_group(0).column(1))[:2] == (0, False)
    assert 6 not in footer_of(data)[4][0][1][1], "and their pages no index"


def test_not_a_number_has_no_bounds() -> None:
    schema = pa.schema([pa.field("double", pa.float64(), nullable=False)])
    data = written([pa.table({"double": [1.0, float("nan"), 2.0]}, schema=schema)], schema)

    assert _told(pq.read_metadata(BytesIO(data)).row_group(0).column(0))[:2] == (0, False)
    assert str(read(data).to_pydict()["double"]) == "[1.0, nan, 2.0]"


def test_a_dictionary_that_would_grow_too_large_is_done_without() -> None:
    few = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([pa.field("few", few, nullable=False)])
    names = [["a", "b"], ["b", "a"], ["far too long for it", "a"], ["b"]]
    tables = [pa.table({"few": pa.array(each).dictionary_encode()}, schema=schema) for each in names]
    data = written(tables, schema)

    assert read(data).column("few").to_pylist() == [name for each in names for name in each]
    assert set(pq.read_metadata(BytesIO(data)).row_group(0).column(0).encodings) == {
        "RLE",
        "PLAIN",
        "RLE_DICTIONARY",
    }


def test_pages_that_use_the_dictionary_come_first() -> None:
    data, expected = mixed("rrnr", 5)
    [chunk] = footer_of(data)[4][0][1]
    pages = [Compact(data, place[1]).struct() for place in _index(data, chunk, 4)[1]]

    assert [page[5][2] for page in pages] == [
        *[Encoding.RLE_DICTIONARY] * 2,
        *[Encoding.DELTA_BINARY_PACKED] * 2,
    ]
    assert read(data).column("number").to_pylist() == expected


def test_numbers_that_repeat_go_on_with_a_dictionary_that_has_begun() -> None:
    data, expected = mixed("rorn", 8)
    [chunk] = footer_of(data)[4][0][1]
    pages = [Compact(data, place[1]).struct() for place in _index(data, chunk, 4)[1]]

    encodings = [page[5][2] for page in pages]
    assert encodings[:3] == [Encoding.RLE_DICTIONARY] * 3
    assert set(encodings[3:]) == {Encoding.DELTA_BINARY_PACKED}
    assert read(data).column("number").to_pylist() == expected


def test_what_is_done_without_a_dictionary_asks_for_no_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    writable: list[bool] = []

    def watched(_: Any, at: int, *values: Any) -> tuple[int, int, int]:
        writable.extend(each.flags.writeable for each in values[:-3] if isinstance(each, np.ndarray))
        return at, 0, 0

    monkeypatch.setattr("spark_jobs.parquet.encoders.put_delta", watched)
    monkeypatch.setattr("spark_jobs.parquet.encoders.put_plain", watched)
    mixed("nr", 5)
    runs(3, 3, 3)

    assert writable
    assert not any(writable)


def test_the_same_rows_are_the_same_bytes_whatever_lay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table, expected = numbers(300), written([numbers(300)], NUMBERS)
    chance = random.Random(5)

    def dirty(size: int, dtype: Any) -> Any:
        return np.frombuffer(bytearray(chance.randbytes(size * np.dtype(dtype).itemsize)), dtype=dtype)

    monkeypatch.setattr("spark_jobs.parquet.pages.np.empty", dirty)

    assert written([table], NUMBERS) == expected


def test_a_row_group_ends_after_many_rows_however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.parquet.writer.GROUP_ROWS", 10)
    data, expected = mixed("rrrrr", 6)
    told = pq.read_metadata(BytesIO(data))

    assert [told.row_group(each).num_rows for each in range(told.num_row_groups)] == [12, 12, 6]
    assert read(data).column("number").to_pylist() == expected


def test_many_names_of_headers_take_no_more_memory_than_a_few_copies_of_them() -> None:
    schema = pa.schema([pa.field("headers", HEADERS_TYPE, nullable=False)])
    headers = [{"key": f"{number:020}", "value": None} for number in range(50_000)]
    table = pa.table({"headers": pa.array([headers], HEADERS_TYPE)}, schema=schema)
    written([table], schema)  # kernels are loaded
    tracemalloc.start()
    data = written([table], schema)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert read(data).equals(table)
    assert peak < 4 * table.nbytes


def test_what_is_written_is_not_kept() -> None:
    output, chance = BytesIO(), random.Random(7)
    writer = ParquetWriter(output, NUMBERS)
    tracemalloc.start()
    for number in range(100):
        row = {"number": [number], "value": [chance.randbytes(10_000)]}
        writer.write_table(pa.table(row, schema=NUMBERS))
        output.seek(0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 500_000


def test_a_file_without_rows_is_a_file() -> None:
    assert read(written([], NUMBERS)).equals(NUMBERS.empty_table())


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_byte_of_a_page_is_noticed(seed: int) -> None:
    data, chance = written([numbers(300)], NUMBERS), random.Random(seed)
    chunks = [chunk for group in footer_of(data)[4] for chunk in group[1]]
    place = chance.choice([place for chunk in chunks for place in _index(data, chunk, 4)[1]])
    reader = Compact(data, place[1])
    size = reader.struct()[3]
    changed = bytearray(data)
    changed[reader.position + chance.randrange(size)] ^= 0x10

    with pytest.raises(OSError, match="CRC"):
        read(bytes(changed))
