"""Checks whether the objects of a capture follow the format: `onceover check-capture`.

The format is in docs/guides/capture-format.md. Objects are placed as `stage` places them, and their batches
are scanned with their checksums. Nothing is written.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.segment import ScannedBatch, scan
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.manifest import ObjectRole, StageProblem
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
from spark_jobs.sources.capture import answered_object
from spark_jobs.sources.registry import capture_at

REQUIRED = {"object": str, "position": int, "size": int, "error_code": int | None}
"""Fields of a line of answers, and their types."""
BATCHES, REFUSED = "batches", "refused"


class Weight(StrEnum):
    """A problem breaks the format; a note may be intended."""

    PROBLEM = "problem"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFinding:
    """What is wrong with an object; `path` is relative to the root of the capture."""

    path: str
    text: str
    weight: Weight = Weight.PROBLEM


@dataclass(slots=True)
class CaptureCounts:
    """What was looked at."""

    objects: int = 0
    batches: int = 0
    bytes: int = 0
    answers: int = 0
    markers: int = 0
    ends: dict[str, dict[int, int]] = field(default_factory=dict)
    """Positions and sizes of batches by the object's path without its extension, for the answers to it."""


def check_capture(store: ObjectStore, dates: str | None, counts: CaptureCounts) -> Iterator[CaptureFinding]:
    """All findings, object by object; `counts` grows meanwhile."""
    try:
        reader = capture_at(store.url, dates)
    except ValidationError as error:
        raise StorageError(f"{printable(dates or '')}: expected {error.errors()[0]['msg']}") from None
    answers: list[ObjectStat] = []
    for stat in store.list():
        placed = reader.place(stat)
        if isinstance(placed, StageProblem):
            yield CaptureFinding(path=stat.key, text=placed.detail.rpartition("set aside: ")[2])
        elif placed is not None and placed.role is ObjectRole.ANSWERS:
            answers.append(stat)
        elif placed is not None:
            counts.objects += 1
            counts.bytes += stat.size
            yield from _check_object(store, stat, counts)
    for stat in answers:
        yield from _check_answers(store, stat, counts)
    if counts.markers:
        text = f"{counts.markers:,} markers: the source needs `markers: true`, else they are refused"
        yield CaptureFinding(path=".", text=text, weight=Weight.NOTE)


def _check_object(store: ObjectStore, stat: ObjectStat, counts: CaptureCounts) -> Iterator[CaptureFinding]:
    if not stat.size:
        yield CaptureFinding(path=stat.key, text="empty: write an object only if there are batches for it")
    batches: list[ScannedBatch] = []
    try:
        with store.viewed(stat.key, 0, stat.size, version=stat.version) as data:
            batches.extend(scan(data, source=printable(stat.key)))
            problem = ""
            yield from _check_markers(stat.key, data, batches, counts)
    except CorruptData as error:
        problem = str(error)
    counts.batches += len(batches)
    stem = stat.key.rpartition(".")[0]
    counts.ends[stem] = {batch.position: batch.header.size for batch in batches}
    if problem:
        yield CaptureFinding(path=stat.key, text=f"after {len(batches):,} whole batches: {problem}")
    yield from _remarks(stat.key, batches)


def _check_markers(
    path: str, data: bytes | memoryview, batches: list[ScannedBatch], counts: CaptureCounts
) -> Iterator[CaptureFinding]:
    """Control batches must be markers, as a coordinator writes them."""
    for batch in batches:
        header = batch.header
        if not isinstance(header, RecordBatchHeader) or not header.is_control:
            continue
        counts.markers += 1
        end = batch.position + header.size
        marker = read_marker(data[batch.position : end], source=printable(path), position=batch.position)
        if marker is None or not header.is_transactional or header.producer_id < 0:
            text = f"the control batch at {batch.position} is no marker of a transaction"
            yield CaptureFinding(path=path, text=text)


def _remarks(path: str, batches: list[ScannedBatch]) -> Iterator[CaptureFinding]:
    """What is unusual in whole batches, once per object."""
    old = [batch for batch in batches if not isinstance(batch.header, RecordBatchHeader)]
    new = [batch.header for batch in batches if isinstance(batch.header, RecordBatchHeader)]
    if old:
        text = f"{len(old):,} batches of message format 0 or 1, the first at {old[0].position}; expected 2"
        yield CaptureFinding(path=path, text=text)
    if len(new) > 1 and all(one.base_offset < two.base_offset for one, two in pairwise(new)):
        text = "offsets are assigned and ascend: a copied segment? Use a source of kind broker-log for it"
        yield CaptureFinding(path=path, text=text)
    if empty := sum(header.record_count <= 0 for header in new):
        yield CaptureFinding(path=path, text=f"{empty:,} batches without records, which a broker refuses")


def _check_answers(store: ObjectStore, stat: ObjectStat, counts: CaptureCounts) -> Iterator[CaptureFinding]:
    about = counts.ends.get(answered_object(stat.key), {})
    seen: set[int] = set()
    for number, raw in enumerate(store.read(stat.key).splitlines(), start=1):
        line, problem = _read_line(raw)
        if problem:
            yield CaptureFinding(path=stat.key, text=f"line {number}: {problem}")
        elif line["object"] == BATCHES:
            counts.answers += 1
            seen.add(line["position"])
            if line["position"] not in about:
                where = f"no batch begins at {line['position']} of the object"
                yield CaptureFinding(path=stat.key, text=f"line {number}: {where}")
    if missing := sorted(about.keys() - seen):
        text = f"{len(missing):,} batches have no line, the first at {missing[0]}"
        yield CaptureFinding(path=stat.key, text=text, weight=Weight.NOTE)


def _read_line(text: bytes) -> tuple[dict[str, Any], str]:
    """The line, and what is wrong with it."""
    try:
        line = json.loads(text)
    except ValueError as error:
        return {}, f"not JSON: {error}"
    if not isinstance(line, dict):
        return {}, "not a JSON object"
    for name, kind in REQUIRED.items():
        if name not in line or not isinstance(line[name], kind):
            return {}, f"expected '{name}' as {getattr(kind, '__name__', kind)}"
    if line["object"] not in {BATCHES, REFUSED}:
        return {}, f"'object' is neither {BATCHES} nor {REFUSED}"
    return line, ""
