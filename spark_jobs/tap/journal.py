"""The journal of the tap: a local file with requests and answers in order of arrival.

A request is in the journal before it goes to the broker, and its answer before it goes to the client. So a
killed tap has lost nothing that a client got an answer to. A journal is closed by size or time, then made
into capture objects (`objects`) and deleted. Requests that wait for their answer then are copied into the
next journal, so that all answers are in one sequence. After a restart the journals that are left are made
into objects first; requests without an answer in them have none.

An entry is its kind (1 byte), the number of its request (8 bytes), the size of its text and of its data (4
bytes each), then a JSON text and the data: the batches of all parts of a request, one after the other.
"""

import fcntl
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

from spark_jobs.lake.errors import LakeBusy
from spark_jobs.tap.messages import NO_ACKS, AppendRequest, PartAnswer

SUFFIX = ".journal"
LAST = "last"
"""A file with the newest time in a name: names increase though journals are deleted and clocks step."""
TIME = re.compile(r"\d{8}T\d{9}")
TIME_SIZE = 18
_ENTRY = struct.Struct(">bqii")
READ_BYTES = 2**20


class JournalEntryKind(IntEnum):
    """SEALED is the last entry, with the numbers of the requests that are copied into the next journal."""

    REQUEST = 1
    ANSWER = 2
    MISSED = 3
    SEALED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry; `position` and `size` are those of its data in the file."""

    kind: JournalEntryKind
    request: int
    text: Any
    position: int
    size: int


class Journal:
    """An open journal; `pending` are the requests that wait for their answer: where their entries are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.copied = 0
        self.pending: dict[int, slice] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)

    @property
    def pending_bytes(self) -> int:
        return sum(at.stop - at.start for at in self.pending.values())

    def is_full(self, limit: int) -> bool:
        """Whether it has `limit` new bytes, and more than were copied into it, which cost as much again."""
        return self.size - self.copied >= max(limit, self.copied)

    def request(self, number: int, request: AppendRequest, received_at: int) -> None:
        """Appends a request; an error leaves the journal as it was."""
        parts = [[part.topic, part.partition, len(part.records)] for part in request.parts]
        text = {
            "received_at": received_at,
            "client_id": request.client_id,
            "transactional_id": request.transactional_id,
            "acks": request.acks,
            "parts": parts,
        }
        start = self.size
        self._append(
            JournalEntryKind.REQUEST, number, text, [memoryview(part.records) for part in request.parts]
        )
        if request.acks != NO_ACKS:
            self.pending[number] = slice(start, self.size)

    def answer(self, number: int, answers: Sequence[PartAnswer] | None) -> None:
        """Appends the answer to a request of this journal; None if there will be none."""
        del self.pending[number]
        text = [
            [each.topic, each.partition, each.error_code, each.base_offset, each.log_append_time]
            for each in answers or ()
        ]
        self._append(JournalEntryKind.ANSWER, number, text)

    def missed(self, text: dict[str, Any]) -> None:
        """Appends that requests went to the broker without being captured."""
        self._append(JournalEntryKind.MISSED, 0, text)

    def copy_pending(self, earlier: "Journal") -> None:
        """Copies the requests of an earlier journal that still wait for their answer."""
        for number, at in earlier.pending.items():
            start = self.size
            self._write([memoryview(earlier.entry(at))])
            self.pending[number] = slice(start, self.size)
        self.copied = self.size

    def entry(self, at: slice) -> bytes:
        """The bytes of an entry."""
        return os.pread(self._file, at.stop - at.start, at.start)

    def seal(self, moved: Iterable[int] = ()) -> None:
        """Writes the last entry; requests `moved` are in the next journal. `close` must follow."""
        self._append(JournalEntryKind.SEALED, 0, list(moved))

    def close(self) -> None:
        """Returns when everything is on the disk, if the disk can do it; the objects are durable anyway."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def discard(self) -> None:
        """Removes the journal."""
        os.close(self._file)
        self.path.unlink()

    def _append(
        self, kind: JournalEntryKind, number: int, text: Any, data: Iterable[memoryview] = ()
    ) -> None:
        encoded, held = json.dumps(text, separators=(",", ":")).encode(), list(data)
        head = _ENTRY.pack(kind, number, len(encoded), sum(map(len, held)))
        self._write([memoryview(head), memoryview(encoded), *held])

    def _write(self, pieces: list[memoryview]) -> None:
        wanted = sum(map(len, pieces))
        try:
            _write_all(self._file, pieces)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += wanted


def _write_all(file: int, pieces: list[memoryview]) -> None:
    while pieces:
        written = os.writev(file, pieces[:1000])
        while pieces and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if written:
            pieces[0] = pieces[0][written:]


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """All whole entries; what a killed tap wrote last may be incomplete and is left out.

    After a power failure pages of the last entries may be missing, so that they are zeros.
    """
    size = path.stat().st_size
    with path.open("rb", buffering=READ_BYTES) as file:
        position = 0
        while head := file.read(_ENTRY.size):
            if len(head) < _ENTRY.size:
                return
            kind, number, text_size, data_size = _ENTRY.unpack(head)
            data_at = position + _ENTRY.size + text_size
            if (
                kind not in set(JournalEntryKind)
                or text_size < 0
                or data_size < 0
                or data_at + data_size > size
            ):
                return
            try:
                text = json.loads(file.read(text_size))
            except ValueError:
                return
            yield JournalEntry(
                kind=JournalEntryKind(kind), request=number, text=text, position=data_at, size=data_size
            )
            position = data_at + data_size
            file.seek(position)


class Spool:
    """The folder with the journals of one tap."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second tap out of the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(directory)
            raise LakeBusy(f"{self.folder}: another tap uses this spool; give each tap its own") from None
        try:
            yield
        finally:
            os.close(directory)

    def new(self) -> Journal:
        """A journal whose name is later than those of all earlier ones, and of their objects."""
        now, last = _time_text(datetime.now(tz=UTC)), self._last_time()
        time = now if now > last else _after(last)
        self._note(time)  # first: on a full disk it fails, and a journal would stay open
        return Journal(self.folder / f"{time}Z-{self.name}{SUFFIX}")

    def note(self, received_at: int) -> None:
        """Objects may have names of this time."""
        time = _time_text(_datetime(received_at))
        if time > self._last_time():
            self._note(time)

    def _note(self, time: str) -> None:
        temporary = self.folder / f".{LAST}"
        temporary.write_text(time)
        temporary.replace(self.folder / LAST)

    def left(self) -> list[Path]:
        """The journals that an earlier process left, oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def _last_time(self) -> str:
        found = [path.name[:TIME_SIZE] for path in self.left()]
        if (self.folder / LAST).exists():
            found.append((self.folder / LAST).read_text()[:TIME_SIZE])
        return max(filter(TIME.fullmatch, found), default="")


def seal_left(paths: Sequence[Path]) -> int:
    """Ends the journals that an earlier process left, oldest first, cutting off incomplete last entries.

    Returns when the last request in them was received.
    """
    later: set[int] = set()
    newest = 0
    for path in reversed(paths):
        entries = list(read_journal(path))
        if not entries or entries[-1].kind is not JournalEntryKind.SEALED:
            _seal_left(path, entries, later)
        requests = [entry for entry in entries if entry.kind is JournalEntryKind.REQUEST]
        later |= {entry.request for entry in requests}
        newest = max([newest, *(entry.text["received_at"] for entry in requests)])
    return newest


def _seal_left(path: Path, entries: list[JournalEntry], later: set[int]) -> None:
    """A request that is in a later journal was copied there, because it had no answer yet."""
    end = entries[-1].position + entries[-1].size if entries else 0
    moved = sorted({entry.request for entry in entries if entry.kind is JournalEntryKind.REQUEST} & later)
    text = json.dumps(moved).encode()
    with path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(_ENTRY.pack(JournalEntryKind.SEALED, 0, len(text), 0) + text)
        file.flush()
        os.fsync(file.fileno())


def day_of(name: str) -> str:
    """The date of a journal as `YYYY-MM-DD`."""
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}"


def with_time(name: str, received_at: int) -> str:
    """The name of a journal's object whose first batch came then; never before the journal."""
    return max(_time_text(_datetime(received_at)), name[:TIME_SIZE]) + name[TIME_SIZE:]


def _datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def _time_text(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S}{time.microsecond // 1000:03d}"


def _after(text: str) -> str:
    time = datetime.strptime(f"{text}000", "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    return _time_text(datetime.fromtimestamp(time.timestamp() + 0.0015, tz=UTC))
