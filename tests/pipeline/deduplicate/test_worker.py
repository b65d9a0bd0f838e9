"""Files of the index: their bytes, which parts of them are read, and what a duplicate points to."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.config.dedup import IdRule
from spark_jobs.kernels.ids import bucket_of
from spark_jobs.lake import id_index
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.id_index import IdFile, IdIndex, SortedRun, put_firsts, read_firsts
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.parquet_file import iter_groups_of, iter_sized_rows, put_table, read_groups
from spark_jobs.pipeline.deduplicate.job import BucketContext, NewIds, PieceTask
from spark_jobs.pipeline.deduplicate.step import piece_tasks
from spark_jobs.pipeline.deduplicate.worker import kinds_of, rows_by, write_firsts
from spark_jobs.tables.deduplicate import FIRST_SCHEMA, DuplicateKind

DAY_US, MINUTE_US = 86_400_000_000, 60_000_000
Sent = tuple[int | None, int, str | None]
"""Timestamp, producer id and transactional id."""


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def _firsts(count: int, id_bytes: int = 8) -> pa.Table:
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {
        "hash": np.sort(random.integers(-(2**63), 2**63 - 1, count)),
        "topic": ["orders"] * count,
        "partition": [0] * count,
        "offset": range(count),
        "timestamp": [0] * count,
        "producer_id": [7] * count,
        "producer_epoch": [0] * count,
        "transactional_id": [None] * count,
        "id": [random.bytes(id_bytes) for _ in range(count)],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in FIRST_SCHEMA]
    return pa.table(arrays, schema=FIRST_SCHEMA)


def _written(lake: FileStore, rows: pa.Table, buckets: int) -> IdFile:
    places = bucket_of(np.asarray(rows.column("hash").combine_chunks()), buckets)
    files = []
    for bucket in range(buckets):
        put_table(lake, f"parts/{buckets}", f"{bucket}.parquet", rows.filter(pa.array(places == bucket)))
        files.append((bucket, f"parts/{buckets}/{bucket}.parquet"))
    new = (NewIds(day=1, files=tuple(files)),)
    return write_firsts(PieceTask(number=0, count=1, pieces=(), new=new, lake=lake))


def test_buckets_do_not_change_a_file_with_long_ids(lake: FileStore) -> None:
    rows = _firsts(1 << 14, id_bytes=200)  # a row group with more than one page of ids
    assert _written(lake, rows, 1) == _written(lake, rows, 64)


def test_only_row_groups_with_a_hit_are_read(lake: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_index, "FIRST_GROUP", 10)
    rows = _firsts(100)
    piece = put_firsts(lake, rows)
    hits = np.asarray(rows.column("hash").combine_chunks())[[3, 95]]
    parts = list(iter_groups_of(lake, state_key(piece.digest), "hash", hits, columns=["offset"]))
    offsets = [offset for part in parts for offset in part.column("offset").to_pylist()]
    assert offsets == [*range(10), *range(90, 100)]
    found = read_firsts(lake, SortedRun(first=1, last=1, pieces=(piece,)), 0, 1, hits)
    assert found.column("offset").to_pylist() == [3, 95]


def test_a_row_group_without_statistics_is_read(lake: FileStore, tmp_path: Path) -> None:
    rows = _firsts(100)
    pq.write_table(rows, tmp_path / "rows.parquet", write_statistics=False, row_group_size=10)
    assert read_groups(lake, "rows.parquet", "hash", 0, 0).num_rows == 100
    hits = np.zeros(1, dtype=np.int64)
    parts = iter_groups_of(lake, "rows.parquet", "hash", hits, columns=["hash"])
    assert sum(part.num_rows for part in parts) == 100


def test_large_values_are_read_in_smaller_parts(lake: FileStore) -> None:
    random = np.random.default_rng(1)
    values = [random.bytes(1000) for _ in range(100)]
    table = pa.table({"number": range(100), "value": pa.array(values, pa.binary())})
    put_table(lake, "folder", "table.parquet", table)
    parts = list(iter_sized_rows(lake, "folder/table.parquet", size=10_000))
    assert 5 <= max(part.num_rows for part in parts) <= 10
    assert pa.Table.from_batches(parts).equals(table)
    numbers = iter_sized_rows(lake, "folder/table.parquet", columns=["number"], size=10_000)
    assert [part.num_rows for part in numbers] == [part.num_rows for part in parts]


def test_a_task_of_the_index_names_only_files_of_its_range(lake: FileStore) -> None:
    pieces = tuple(IdFile(digest=str(number), ids=1, bytes=1) for number in range(8))
    new = NewIds(day=3, files=tuple((bucket, str(bucket)) for bucket in (0, 5, 6, 9, 15)))
    context: Any = SimpleNamespace(settings=SimpleNamespace(limits=SimpleNamespace(file_bytes=1)))
    bucket = BucketContext(
        rule=IdRule(scope=("orders",), id="key"), index=IdIndex(rule=""), buckets=16, folder="", lake=lake
    )
    tasks = piece_tasks(context, bucket, 4, (SortedRun(first=1, last=2, pieces=pieces),), (new,))
    assert [[piece.digest for piece in task.pieces] for task in tasks] == [
        [str(2 * number), str(2 * number + 1)] for number in range(4)
    ]
    assert [[bucket for bucket, _ in task.new[0].files] for task in tasks] == [[0], [5, 6], [9], [15]]


@pytest.mark.parametrize(
    ("later", "first", "kind"),
    [
        ((0, 7, None), (0, 7, None), DuplicateKind.REPEATED),
        ((MINUTE_US, 7, None), (0, 7, None), DuplicateKind.REPEATED),
        ((MINUTE_US + 1, 7, None), (0, 7, None), DuplicateKind.RESENT),
        ((0, 7, None), (MINUTE_US + 1, 7, None), DuplicateKind.RESENT),
        ((DAY_US, -1, None), (0, -1, None), DuplicateKind.RESENT),
        ((DAY_US, 8, None), (0, 7, None), DuplicateKind.FAILOVER),
        ((DAY_US + 1, 8, None), (0, 7, None), DuplicateKind.REPLAYED),
        ((0, 7, None), (0, 8, None), DuplicateKind.FAILOVER),
        ((0, 7, "t"), (0, 8, "t"), DuplicateKind.REPEATED),
        ((0, 7, "t"), (0, 7, "u"), DuplicateKind.FAILOVER),
        ((0, -1, None), (0, -1, None), DuplicateKind.REPEATED),
        ((0, -1, None), (0, 7, None), DuplicateKind.FAILOVER),
        ((DAY_US + 1, -1, None), (0, -1, None), DuplicateKind.REPLAYED),
        ((None, 7, None), (0, 7, None), DuplicateKind.REPLAYED),
    ],
)
def test_what_a_duplicate_points_to(later: Sent, first: Sent, kind: DuplicateKind) -> None:
    names = ["timestamp", "producer_id", "transactional_id"]
    types = [pa.timestamp("us"), pa.int64(), pa.string()]
    one = pa.table([pa.array([value], type_) for value, type_ in zip(later, types, strict=True)], names=names)
    types[0] = pa.int64()
    other = pa.table(
        [pa.array([value], type_) for value, type_ in zip(first, types, strict=True)], names=names
    )
    other = other.rename_columns([f"first_{name}" for name in names])
    other = other.append_column("first_day", pa.array([8], pa.int32()))
    assert kinds_of(10, one, other).to_pylist() == [kind]


@pytest.mark.parametrize(
    ("days", "kind"),
    [(0, DuplicateKind.REPEATED), (1, DuplicateKind.RESENT), (2, DuplicateKind.REPLAYED)],
)
def test_without_a_timestamp_run_dates_are_compared(days: int, kind: DuplicateKind) -> None:
    names = {"timestamp": pa.timestamp("us"), "producer_id": pa.int64(), "transactional_id": pa.string()}
    row = pa.table(
        [pa.array([value], type_) for value, type_ in zip((None, 7, None), names.values(), strict=True)],
        names=[*names],
    )
    first = row.set_column(0, "timestamp", row.column("timestamp").cast(pa.int64()))
    first = first.rename_columns([f"first_{name}" for name in names]).append_column(
        "first_day", pa.array([10 - days], pa.int32())
    )
    assert kinds_of(10, row, first).to_pylist() == [kind]


def test_duplicates_of_a_producer_without_a_transactional_id_are_counted_together() -> None:
    names = pa.array([None, "t", None], pa.string())
    rows = pa.table({"producer_id": [7, 7, 7], "transactional_id": names, "kind": ["repeated"] * 3})
    counts = {row["transactional_id"]: row["count_all"] for row in rows_by(rows, rows.column_names)}
    assert counts == {None: 2, "t": 1}
    assert rows_by(rows.slice(0, 0), ["producer_id"]) == []
