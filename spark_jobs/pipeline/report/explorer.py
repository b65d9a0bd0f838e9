"""The batch explorer's files: all batches of a small run, a selection of a large one, and their index."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.explain import ExplainedBatch, object_paths, place_of
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_row_range, iter_rows
from spark_jobs.pipeline.report.run_tables import PLAIN, RunTables
from spark_jobs.pipeline.report.site_files import NamedData
from spark_jobs.pipeline.report.topics import READERS, PartitionView

MOST_TROUBLED = 10_000
"""Batches that were not simply accepted, per run."""
MOST_PLAIN = 5_000
"""Accepted batches and overlaps of copies, per run."""
FAR_APART = 1 << 16
"""Rows farther apart than this are read separately."""

RowNumbers = npt.NDArray[np.int64]
CHUNK = 500
MOST_IDS = 100
"""A chunk with more producers than this is indexed by its smallest and largest id only."""
Shown = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many batches of one partition are shown."""

    troubled: int
    plain: int

    @property
    def total(self) -> int:
        return self.troubled + self.plain


def quotas_of(counts: Sequence[Mapping[str, int]]) -> list[Quota]:
    """A fair share for each partition: large ones get what small ones do not use."""
    plain = [sum(n for verdict, n in each.items() if verdict in PLAIN) for each in counts]
    troubled = [sum(each.values()) - n for each, n in zip(counts, plain, strict=True)]
    shares = zip(fair_shares(troubled, MOST_TROUBLED), fair_shares(plain, MOST_PLAIN), strict=True)
    return [Quota(troubled=bad, plain=good) for bad, good in shares]


def fair_shares(wanted: Sequence[int], most: int) -> list[int]:
    """Divides `most`: none gets more than it wants or less than an equal part of the rest."""
    shares = [0] * len(wanted)
    for left, place in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        share = most // (len(wanted) - left)
        shares[place] = min(wanted[place], share)
        most -= shares[place]
    return shares


def chosen_rows(lake: ObjectStore, key: str, quota: Quota, rows: int) -> Iterator[dict[str, Any]]:
    """The first of the troubled and the newest of the plain of all `rows`, in the order of the file."""
    if quota.total == rows:
        for part in iter_rows(lake, key) if rows else ():
            yield from part.to_pylist()
    elif quota.total:
        yield from _rows_at(lake, key, _row_numbers(lake, key, quota))


def _rows_at(lake: ObjectStore, key: str, places: RowNumbers) -> Iterator[dict[str, Any]]:
    for span in np.split(places, np.flatnonzero(np.diff(places) > FAR_APART) + 1):
        start = int(span[0])
        for rows in iter_row_range(lake, key, start, int(span[-1]) + 1):
            inside = span[(span >= start) & (span < start + rows.num_rows)] - start
            start += rows.num_rows
            yield from rows.take(pa.array(inside, pa.int64())).to_pylist()


def _row_numbers(lake: ObjectStore, key: str, quota: Quota) -> RowNumbers:
    is_plain = np.concatenate(
        [np.empty(0, dtype=bool), *(_is_plain(rows) for rows in iter_rows(lake, key, columns=["verdict"]))]
    )
    troubled, plain = np.flatnonzero(~is_plain), np.flatnonzero(is_plain)
    return np.sort(np.concatenate([troubled[: quota.troubled], plain[len(plain) - quota.plain :]]))


def _is_plain(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    found = pc.is_in(rows.column("verdict"), value_set=pa.array(sorted(PLAIN)))
    plain: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return plain


def explorer_files(tables: RunTables, partitions: Sequence[PartitionView]) -> Iterator[NamedData]:
    """The chunks, then the index of them."""
    base, entries = f"run/{tables.run_id}", []
    for number, chunk in enumerate(_chunks(_batches(tables, partitions))):
        entries.append(_entry(chunk))
        yield f"{base}/batches/{number}", chunk
    yield (
        f"{base}/batches",
        {
            "topics": sorted({view.topic for view in partitions}),
            "batches": sum(view.rows for view in partitions),
            "troubled": sum(view.troubled for view in partitions),
            "shown": sum(entry["count"] for entry in entries),
            "shown_troubled": sum(entry["troubled"] for entry in entries),
            "chunks": entries,
        },
    )


def _batches(tables: RunTables, partitions: Sequence[PartitionView]) -> Iterator[Shown]:
    """Batches that were not simply accepted come first, since an empty search shows the first chunk. The
    others are buffered in memory, since they are few.
    """
    paths = object_paths(tables.lake, tables.run_id) if partitions else {}
    plain: list[Shown] = []
    for row in _rows(tables, partitions):
        shown = _shown(ExplainedBatch(run_id=tables.run_id, place=place_of(row, paths), row=row))
        if shown["verdict"] in PLAIN:
            plain.append(shown)
        else:
            yield shown
    yield from plain


def _rows(tables: RunTables, partitions: Sequence[PartitionView]) -> Iterator[dict[str, Any]]:
    quotas = quotas_of([view.verdicts for view in partitions])

    def read(view: PartitionView, quota: Quota) -> list[dict[str, Any]]:
        return list(chosen_rows(tables.lake, view.file, quota, view.rows))

    with ThreadPoolExecutor(READERS) as readers:
        for rows in readers.map(read, partitions, quotas):
            yield from rows


def _shown(answer: ExplainedBatch) -> Shown:
    """One batch: the explanation in the words of `onceover explain`, and what it can be found by."""
    row = answer.row
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "verdict": row["verdict"],
        "offset": row["offset"],
        "last": None if row["offset"] is None else row["offset"] + row["last_offset_delta"],
        "producer": row["producer_id"],
        "epoch": row["producer_epoch"],
        "records": row["record_count"],
        "bytes": row["size"],
        "time": row["max_timestamp"],
        "sentence": answer.sentence,
        "place": answer.place,
    }


def _entry(chunk: list[Shown]) -> Shown:
    """What a search can rule the chunk out by."""
    producers = sorted({each["producer"] for each in chunk})
    return {
        "count": len(chunk),
        "troubled": sum(each["verdict"] not in PLAIN for each in chunk),
        "verdicts": sorted({each["verdict"] for each in chunk}),
        "producers": producers if len(producers) <= MOST_IDS else None,
        "producer_range": [producers[0], producers[-1]],
        "parts": [[*key, *span] for key, span in _spans(chunk).items()],
    }


def _spans(chunk: Iterable[Shown]) -> dict[tuple[str, int], list[int]]:
    """First and last offset by partition; -1 where no batch of it has an offset."""
    spans: dict[tuple[str, int], list[int]] = {}
    for each in chunk:
        span = spans.setdefault((each["topic"], each["partition"]), [-1, -1])
        if each["offset"] is not None:
            first = each["offset"] if span[0] < 0 else min(span[0], each["offset"])
            span[:] = [first, max(span[1], each["last"])]
    return spans


def _chunks(rows: Iterator[Shown]) -> Iterator[list[Shown]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
