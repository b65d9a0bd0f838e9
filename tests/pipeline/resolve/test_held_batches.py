"""Batches that are held back: those that can still be published, in files that do not grow without end."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.folds import STRETCH
from spark_jobs.lake.inherited_rows import STRETCH_OFFSETS, get_inherited
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.resolve.held_batches import Holding, RunBatches, hold
from spark_jobs.tables.admit import BATCHES

NO_STRETCHES = np.empty(0, dtype=STRETCH)


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def entry(order: int) -> ManifestEntry:
    return ManifestEntry(
        order=order,
        source="s",
        role=ObjectRole.CAPTURE,
        topic="t",
        partition=0,
        path=f"o{order}",
        size=1,
        sha256=f"{order:064x}",
    )


def run(
    lake: FileStore,
    *rows: tuple[int, int | None],
    order: int = 0,
    name: str = "run",
    attributes: Mapping[int, int] = MappingProxyType({}),
) -> RunBatches:
    """Batches at the given offsets, each with the first offset of its transaction; some have attributes."""
    table = pa.Table.from_pylist(
        [
            {
                **dict.fromkeys(BATCHES.schema.names, 0),
                **dict.fromkeys(("topic", "source", "kafka_error"), ""),
                **dict.fromkeys(("problem", "reason", "control_type", "coordinator_epoch")),
                "verdict": "accepted" if offset >= 0 else "duplicate",
                "object_order": order,
                "position": place,
                "magic": 2,
                "attributes": attributes.get(offset, 0),
                "offset": offset,
                "txn_first_offset": txn,
            }
            for place, (offset, txn) in enumerate(rows)
        ],
        schema=BATCHES.schema,
    )
    put_table(lake, "admit", f"{name}.parquet", table)
    return RunBatches(key=f"admit/{name}.parquet", objects=(entry(order),))


def holding(cut: int, *, aborted: tuple[int, ...] = (), below_published: tuple[int, ...] = ()) -> Holding:
    return Holding(
        cut=cut,
        aborted=np.array(aborted, dtype=np.int64),
        below_published=np.array(below_published, dtype=np.int64),
    )


def offsets(lake: FileStore, stretches: Rows) -> list[int]:
    digests = [bytes(digest).hex() for digest in stretches["digest"]]
    return [int(offset) for digest in digests for offset in get_inherited(lake, digest).rows["offset"]]


def test_from_the_cut_on_all_is_held_but_what_was_aborted(lake: FileStore) -> None:
    batches = run(lake, (3, None), (5, 5), (6, None), (7, 7), (-1, None), (9, 5))
    assert offsets(lake, hold(lake, holding(5, aborted=(7,)), NO_STRETCHES, batches)) == [5, 6, 9]


def test_before_the_cut_only_what_has_below_published_is_held(lake: FileStore) -> None:
    batches = run(lake, (3, 3), (4, 4), (5, None), (6, 3))
    assert offsets(lake, hold(lake, holding(7, below_published=(3,)), NO_STRETCHES, batches)) == [3, 6]


def test_what_is_held_continues_from_run_to_run_until_it_can_go(lake: FileStore) -> None:
    first = hold(lake, holding(2), NO_STRETCHES, run(lake, (1, None), (2, 2), (3, None)))
    second = hold(lake, holding(2), first, run(lake, (4, 2), order=1, name="second"))
    assert offsets(lake, second) == [2, 3, 4]
    inherited = get_inherited(lake, bytes(second["digest"][0]).hex())
    assert [inherited.objects[number].path for number in inherited.rows["object"]] == ["o0", "o0", "o1"]
    assert len(hold(lake, holding(5), second, RunBatches())) == 0


def test_each_stretch_of_offsets_has_a_file_and_untouched_ones_keep_theirs(lake: FileStore) -> None:
    far = STRETCH_OFFSETS + 3
    first = hold(lake, holding(2), NO_STRETCHES, run(lake, (2, None), (far, None)))
    second = hold(lake, holding(2), first, run(lake, (far + 1, None), order=1, name="second"))
    assert second["number"].tolist() == [0, 1]
    assert second["rows"].tolist() == [1, 2]
    assert first["digest"][0] == second["digest"][0]
    assert first["digest"][1] != second["digest"][1]


def test_markers_are_never_held(lake: FileStore) -> None:
    batches = run(lake, (2, 2), (3, 2), attributes={3: CONTROL_FLAG})
    assert offsets(lake, hold(lake, holding(2), NO_STRETCHES, batches)) == [2]
