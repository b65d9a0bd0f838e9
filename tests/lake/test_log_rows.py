"""A copy of a broker's log as it is read: true logs are as they were, a changed base offset is a problem."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.lake import index_rows
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.index_rows import IndexedCopy, iter_log, segment_places
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.index.walk import Stretch
from spark_jobs.pipeline.index.worker import RowBuffer

DATA = Path(__file__).parents[1] / "recordings" / "data"
PARTITIONS = sorted(path for path in DATA.glob("*/data/*") if any(path.glob("*.log")))
ORC = DATA / "oracle_D" / "data" / "orc-0"
BITS = (0, 2, 7, 30, 31, 40, 62, 63)
"""Of each kind: the kernel's own tests try all of them."""


@pytest.fixture(autouse=True)
def _a_chunk_per_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, so that a misplaced batch and the batch that reveals it are in different chunks."""
    monkeypatch.setattr(index_rows, "FEWEST_ROWS", 1)


def index_of(files: Sequence[Path]) -> pa.Table:
    """The rows of all segments, as `index` makes them."""
    buffer = RowBuffer()
    for order, file in enumerate(files):
        columns = scan_headers(file.read_bytes()).columns
        buffer.add(order, Stretch(columns=columns, damaged=(), damage=None, end=file.stat().st_size))
    return buffer.take()


def copy_of(
    place: Path, table: pa.Table, files: Sequence[Path], *, cuts: Sequence[int] = (), is_compacted: bool
) -> tuple[FileStore, IndexedCopy]:
    """A copy whose rows come in chunks that begin at `cuts`."""
    lake = FileStore(str(place))
    borders = [0, *cuts, table.num_rows]
    parts = [table.slice(start, stop - start) for start, stop in pairwise(borders)]
    names = [f"{number}.parquet" for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        put_table(lake, "index", name, part)
    entries = [
        ManifestEntry(
            order=order, source="s", role=ObjectRole.LOG, path=f"t-0/{file.name}", size=1, sha256=""
        )
        for order, file in enumerate(files)
    ]
    return lake, IndexedCopy(
        partition=TopicPartition("t", 0),
        number=0,
        source="s",
        directory="t-0",
        keys=tuple(f"index/{name}" for name in names),
        rows=table.num_rows,
        segments=segment_places(entries, is_compacted=is_compacted),
    )


def problems(lake: FileStore, copy: IndexedCopy) -> list[str | None]:
    return [text for rows in iter_log(lake, copy) for text in rows.column("problem").to_pylist()]


def changed(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(
            index, table.schema.field(index), pa.array(values, table.schema.field(index).type)
        )
    return table


def with_flip(table: pa.Table, row: int, bit: int) -> pa.Table:
    offsets = table.column("base_offset").to_numpy().copy()
    offsets.view(np.uint64)[row] ^= np.uint64(1 << bit)
    return changed(table, base_offset=offsets)


def borders_of(table: pa.Table) -> list[int]:
    """First, second, a middle and the last two rows of every segment, and the first marker."""
    orders = table.column("object_order").to_numpy()
    rows = {table.column("control_type").is_valid().to_pylist().index(True)}
    for order in np.unique(orders):
        own = np.flatnonzero(orders == order)
        rows |= {
            int(own[place]) for place in (0, min(1, own.size - 1), own.size // 2, max(-2, -own.size), -1)
        }
    return sorted(rows)


def test_in_a_brokers_logs_every_batch_has_its_place(tmp_path: Path) -> None:
    for partition in PARTITIONS:
        files = [file for file in sorted(partition.glob("*.log")) if file.stat().st_size]
        is_compacted = partition.name.startswith("__")
        if files:
            copy = copy_of(tmp_path, index_of(files), files, is_compacted=is_compacted)
            assert not any(problems(*copy)), partition


def flips(table: pa.Table) -> Iterator[tuple[int, int]]:
    return ((row, bit) for row in borders_of(table) for bit in BITS)


def test_every_bit_of_a_base_offset_is_found_in_a_log_without_holes(tmp_path: Path) -> None:
    files = sorted(ORC.glob("*.log"))
    table = index_of(files)
    for row, bit in flips(table):
        damaged = with_flip(table, row, bit)
        # The batch that reveals it is in another chunk.
        copy = copy_of(
            tmp_path, damaged, files, cuts=sorted({row, row + 1} - {0, table.num_rows}), is_compacted=False
        )
        found = problems(*copy)
        reported = [place for place, text in enumerate(found) if text is not None]
        assert reported == [row], (row, bit)
        true, false = (rows.column("base_offset")[row].as_py() for rows in (table, damaged))
        assert found[row] == f"misplaced batch: expected base offset {true}, found {false}"


def test_in_a_compacted_log_it_is_found_unless_it_stays_in_a_hole(tmp_path: Path) -> None:
    files = sorted(ORC.glob("*.log"))[:2]
    table = index_of(files)
    table = table.take(np.flatnonzero(np.arange(table.num_rows) % 3 != 1))
    offsets = table.column("base_offset").to_numpy()
    ends = offsets + table.column("last_offset_delta").to_numpy() + 1
    for row, bit in flips(table):
        damaged = with_flip(table, row, bit)
        found = problems(*copy_of(tmp_path, damaged, files, cuts=[row] if row else [], is_compacted=True))
        claimed = damaged.column("base_offset")[row].as_py()
        before = ends[row - 1] if row else int(files[0].stem)
        is_last = row == table.num_rows - 1
        after = offsets[row] + 2**31 if is_last else offsets[row + 1]
        stays = before <= claimed <= after - (ends[row] - offsets[row])
        assert stays or found[row] is not None, (row, bit)
        assert not stays or not any(found), (row, bit)


def test_behind_damage_a_batch_may_begin_at_any_later_position(tmp_path: Path) -> None:
    files = sorted(ORC.glob("*.log"))[-1:]
    table = index_of(files)
    broken = [None] * (table.num_rows - 2) + ["checksum mismatch", None]
    damaged = with_flip(changed(table, problem=broken), table.num_rows - 1, 20)
    assert problems(*copy_of(tmp_path, damaged, files, is_compacted=False)) == broken


def test_in_a_copy_without_segments_nothing_is_out_of_place(tmp_path: Path) -> None:
    files = sorted(ORC.glob("*.log"))
    lake, copy = copy_of(tmp_path, with_flip(index_of(files), 1, 40), files, is_compacted=False)
    assert problems(lake, replace(copy, segments=())) == [None] * copy.rows
