"""The batch explorer's files: batches in chunks, and an index from search keys to chunks."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from spark_jobs.explaining.answer import Answer, object_paths, place_of
from spark_jobs.reporting.batch_counts import PLAIN
from spark_jobs.reporting.chosen_batches import Choice, choose, chosen_rows
from spark_jobs.reporting.partition_view import READERS, PartitionView
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.site_files import NamedData

CHUNK = 500
MOST_IDS = 100
"""A chunk with more producers than this is indexed by its smallest and largest id only."""

Shown = dict[str, Any]


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
        shown = _shown(Answer(run_id=tables.run_id, place=place_of(row, paths), row=row))
        if shown["verdict"] in PLAIN:
            plain.append(shown)
        else:
            yield shown
    yield from plain


def _rows(tables: RunTables, partitions: Sequence[PartitionView]) -> Iterator[dict[str, Any]]:
    choices = choose([view.verdicts for view in partitions])

    def read(view: PartitionView, choice: Choice) -> list[dict[str, Any]]:
        return list(chosen_rows(tables.lake, view.file, choice, view.rows))

    with ThreadPoolExecutor(READERS) as readers:
        for rows in readers.map(read, partitions, choices):
            yield from rows


def _shown(answer: Answer) -> Shown:
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
