"""Makes a sealed journal into capture objects: `<root>/dt=<date>/<topic>-<partition>/<time>-<tap>.batches`.

Beside an object is `_<object>.answers.jsonl`, a line per batch with the broker's answer, and, if batches are
left out, `_<object>.refused` with their bytes. A journal always gives the same objects, so one whose
conversion was interrupted is converted again. The answers are written before the object.

Batches are in the order of their answers. A producer ends a transaction when all of its batches are answered,
a coordinator answers the next transaction's batches when the markers are answered: so each marker is between
the batches that it ends and those of the next transaction, although they arrive on different connections.

An object has the time of its first batch in its name. If offsets are missing between two batches, another
broker may have led the partition meanwhile: then a new object begins, so that the names of all taps' objects
are in the order of the log.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.sources.capture import ANSWERS, HIDDEN_ANSWERS
from spark_jobs.sources.source import LEGAL_TOPIC
from spark_jobs.tap.journal import JournalEntry, JournalEntryKind, day_of, read_journal, with_time
from spark_jobs.tap.messages import NO_ACKS, PartAnswer

BATCHES, REFUSED, MISSED = "batches", "refused", "missed.json"
COPY_BYTES = 2**20
MOST_NAME = 255
ELECTION_MS = 50
"""A leader does not leave and come back in less; an answer may overtake that of a marker before it."""
MOST_PIECES = 16
"""Objects of a partition in a journal: clients that bypass the tap leave gaps in its offsets, too."""


class OnRefused(StrEnum):
    """Where batches go that the broker has not taken: beside the capture, or into it like all others."""

    ASIDE = "aside"
    CAPTURE = "capture"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedPart:
    """The batches of one partition in one request: where they are in the journal, and the answer to them."""

    position: int
    size: int
    request: dict[str, Any]
    answer: PartAnswer | None

    @property
    def is_marker(self) -> bool:
        return self.request["acks"] is None

    @property
    def offset(self) -> int:
        """Where it is in the broker's log; -1 if that is not known."""
        return self.answer.base_offset if self.answer is not None and self.answer.is_taken else -1

    @property
    def is_left_out(self) -> bool:
        """A transactional batch without a certain answer is either sent again, or aborted: no loss."""
        if self.request["transactional_id"] is not None:
            return self.answer is None or not self.answer.is_taken
        return self.answer is not None and self.answer.is_refused


@dataclass(slots=True, kw_only=True)
class ObjectCounts:
    """The result of a journal."""

    objects: int = 0
    bytes: int = 0
    batches: int = 0
    refused: int = 0
    unanswered: int = 0
    illegal: int = 0


@dataclass(slots=True)
class _Contents:
    """What a journal holds, by topic and partition in order of arrival."""

    parts: dict[tuple[str, int], list[CapturedPart]] = field(default_factory=dict)
    missed: list[dict[str, Any]] = field(default_factory=list)


def write_objects(journal: Path, store: ObjectStore, on_refused: OnRefused) -> ObjectCounts:
    """Writes all objects of a sealed journal; returns when they are durable."""
    counts = ObjectCounts()
    contents = _read(journal)
    name = journal.stem
    keys: list[str] = []
    with journal.open("rb") as file:
        for (topic, partition), parts in sorted(contents.parts.items()):
            if not _is_legal(topic, partition):  # the broker has refused it
                counts.illegal += len(parts)
                continue
            folder = f"dt={day_of(name)}/{topic}-{partition}"
            for piece_name, piece in _pieces(file.fileno(), name, parts).items():
                keys += _write_piece(
                    file.fileno(), piece, store, counts, folder=folder, name=piece_name, on_refused=on_refused
                )
    if contents.missed:
        keys.append(f"dt={day_of(name)}/_{name}.{MISSED}")
        store.put(keys[-1], json.dumps(contents.missed).encode())
    store.make_durable(keys)
    return counts


def _is_legal(topic: str, partition: int) -> bool:
    """Whether a broker can have the partition; no file system takes the name of a longer directory."""
    is_short = len(f"{topic}-{partition}") <= MOST_NAME
    return LEGAL_TOPIC.fullmatch(topic) is not None and partition >= 0 and is_short


def _read(journal: Path) -> _Contents:
    contents = _Contents()
    requests: dict[int, tuple[int, JournalEntry]] = {}
    answers: dict[int, tuple[int, dict[tuple[str, int], PartAnswer]]] = {}
    for place, entry in enumerate(read_journal(journal)):
        if entry.kind is JournalEntryKind.REQUEST:
            requests[entry.request] = place, entry
        elif entry.kind is JournalEntryKind.ANSWER:
            answers[entry.request] = place, dict(_answers(entry.text))
        elif entry.kind is JournalEntryKind.MISSED:
            contents.missed.append(entry.text)
        else:
            for number in entry.text:
                del requests[number]
    ordered = sorted(requests.items(), key=lambda item: _place(item[1], answers.get(item[0])))
    for number, (_, entry) in ordered:
        for partition, part in _parts(entry, answers.get(number, (0, {}))[1]):
            contents.parts.setdefault(partition, []).append(part)
    return contents


def _answers(text: Iterable[Any]) -> Iterator[tuple[tuple[str, int], PartAnswer]]:
    for topic, partition, error_code, base_offset, append_time in text:
        yield (
            (topic, partition),
            PartAnswer(
                topic=topic,
                partition=partition,
                error_code=error_code,
                base_offset=base_offset,
                log_append_time=append_time,
            ),
        )


def _place(request: tuple[int, JournalEntry], answer: tuple[int, Any] | None) -> tuple[bool, int]:
    """Where a request's batches belong: at its answer, or behind everything if the tap was killed before it.

    A marker without an answer belongs where it arrived: its coordinator sends it again, and may complete the
    transaction before the tap knows that this answer will not come. Without `acks` there is no answer.
    """
    place, entry = request
    is_marker = entry.text["acks"] is None
    if entry.text["acks"] == NO_ACKS or (is_marker and not (answer and answer[1])):
        return False, place
    return (False, answer[0]) if answer else (True, place)


def _parts(
    entry: JournalEntry, answers: Mapping[tuple[str, int], PartAnswer]
) -> Iterator[tuple[tuple[str, int], CapturedPart]]:
    position = entry.position
    for topic, partition, size in entry.text.pop("parts"):
        part = CapturedPart(
            position=position, size=size, request=entry.text, answer=answers.get((topic, partition))
        )
        yield (topic, partition), part
        position += size


def _pieces(journal: int, name: str, parts: Iterable[CapturedPart]) -> dict[str, list[CapturedPart]]:
    """The parts of a partition by the names of their objects, which ascend."""
    pieces: dict[str, list[CapturedPart]] = {}
    newest, end, before = "", -1, 0
    for part in parts:
        received_at = part.request["received_at"]
        wanted, is_late = with_time(name, received_at), received_at - before >= ELECTION_MS
        before = received_at
        is_elsewhere = 0 <= end < part.offset and is_late and len(pieces) < MOST_PIECES
        if not pieces or (is_elsewhere and wanted > newest):
            newest = wanted
        pieces.setdefault(newest, []).append(part)
        end = max(end, _end_offset(journal, part, end))
    return pieces


def _end_offset(journal: int, part: CapturedPart, end: int) -> int:
    """The offset after a batch; after a marker, which is answered without one, the one after `end`."""
    if part.is_marker:
        return end + 1 if end >= 0 else -1
    if part.offset < 0 or part.size < HEADER_SIZE:
        return -1
    return part.offset + 1 + read_header(os.pread(journal, HEADER_SIZE, part.position)).last_offset_delta


def _write_piece(
    journal: int,
    parts: Iterable[CapturedPart],
    store: ObjectStore,
    counts: ObjectCounts,
    *,
    folder: str,
    name: str,
    on_refused: OnRefused,
) -> list[str]:
    """An object of a partition and those beside it; returns their keys."""
    taken: dict[str, list[CapturedPart]] = {BATCHES: [], REFUSED: []}
    lines = []
    ends = {BATCHES: 0, REFUSED: 0}
    for part in parts:
        where = REFUSED if part.is_left_out and on_refused is OnRefused.ASIDE else BATCHES
        lines.append(_line(part, where, ends[where]))
        taken[where].append(part)
        ends[where] += part.size
        counts.batches += 1
        counts.refused += part.answer is not None and part.answer.is_refused
        counts.unanswered += part.answer is None
    keys = [f"{folder}/{HIDDEN_ANSWERS}{name}.{ANSWERS}"]
    _adopt(store, keys[0], lines)
    for kind, prefix in ((REFUSED, HIDDEN_ANSWERS), (BATCHES, "")):
        if taken[kind]:
            keys.append(f"{folder}/{prefix}{name}.{kind}")
            _adopt(store, keys[-1], _bytes(journal, taken[kind]))
    counts.objects += bool(taken[BATCHES])
    counts.bytes += ends[BATCHES]
    return keys


def _line(part: CapturedPart, where: str, position: int) -> bytes:
    answer = part.answer
    line = {
        "object": where,
        "position": position,
        "size": part.size,
        **part.request,
        "error_code": None if answer is None else answer.error_code,
        "base_offset": None if answer is None else answer.base_offset,
        "log_append_time": None if answer is None else answer.log_append_time,
    }
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _bytes(journal: int, parts: Iterable[CapturedPart]) -> Iterator[bytes]:
    for part in parts:
        for start in range(0, part.size, COPY_BYTES):
            yield os.pread(journal, min(COPY_BYTES, part.size - start), part.position + start)


def _adopt(store: ObjectStore, key: str, pieces: Iterable[bytes]) -> None:
    """Writes the object under a name of its own first; it gets its key when it is complete."""
    scratch = store.scratch() / secrets.token_hex(8)
    try:
        with scratch.open("xb", buffering=COPY_BYTES) as out:
            for piece in pieces:
                out.write(piece)
        store.adopt(scratch, key)
    finally:
        scratch.unlink(missing_ok=True)
