"""Checks what a Fetch reply holds, and writes it as segments in Kafka's own format.

A segment gets its name once it is complete; `fetched.json` lists it once it is on the disk. A fetch that was
killed continues behind the segments that are listed. Others are removed when the cut is complete.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from io import BufferedWriter
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.checkpoints import LeaderEpochs
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.scan import StopReason, scan_headers
from spark_jobs.lake.file_store import translated
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.sources.cluster.cut import (
    FETCHED,
    UNKNOWN,
    Epochs,
    PartitionCut,
    PartitionFetched,
    fetched_bytes,
    read_fetched,
)

Int64s = npt.NDArray[np.int64]
NO_EPOCH = -2
NO_RISE = (UNKNOWN, UNKNOWN)
SEGMENT_BYTES = 64 * 2**20
"""A killed fetch repeats at most two segments of each partition; a segment holds whole batches."""
MOST_RELATIVE_OFFSET = 2**31 - 1
"""Offsets in a segment are relative to its first, in 32 bits."""


class UntrustedReply(Exception):
    """A reply that no broker would send: it is not written, and asked for again on another connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyBatches:
    """Whole batches of a reply, in order: their headers and bytes, and the offset behind them.

    `hole` is the first offset that is missing, before, between or behind them, -1 without one; batches behind
    a hole are left out, unless it was confirmed. `rise` is the offset and the leader epoch of the first batch
    that was left out because no other batch or reply has its epoch.
    """

    data: memoryview
    rows: HeaderColumns
    next_offset: int
    hole: int = UNKNOWN
    rise: tuple[int, int] = NO_RISE

    @property
    def first_offset(self) -> int:
        return int(self.rows.base_offset[0]) if self.rows.rows else UNKNOWN

    @property
    def last_epoch(self) -> int:
        return int(self.rows.partition_leader_epoch[-1]) if self.rows.rows else UNKNOWN

    def fitting(self, base: int, size: int) -> int:
        """How many batches fit behind `size` bytes into a segment that begins at offset `base`."""
        fits = (size + np.cumsum(self.rows.size, dtype=np.int64) <= SEGMENT_BYTES) & (
            _last_offsets(self.rows) - base <= MOST_RELATIVE_OFFSET
        )
        return self.rows.rows if fits.all() else int(np.argmin(fits))

    def split(self, count: int) -> tuple["ReplyBatches", "ReplyBatches"]:
        """The first `count` batches, and the others."""
        at = int(self.rows.size[:count].sum())
        behind = int(_last_offsets(self.rows)[count - 1]) + 1 if count < self.rows.rows else self.next_offset
        first = replace(self, data=self.data[:at], rows=self.rows.part(0, count), next_offset=behind)
        return first, replace(self, data=self.data[at:], rows=self.rows.part(count, self.rows.rows))


def _last_offsets(rows: HeaderColumns) -> Int64s:
    return rows.base_offset + np.maximum(rows.last_offset_delta, 0)


def take_batches(
    data: bytes | memoryview,
    *,
    position: int,
    end: int,
    begins_inside: bool,
    confirmed_hole: int = UNKNOWN,
    confirmed_rise: tuple[int, int] = NO_RISE,
    dense: bool = True,
    epochs: tuple[int, int] = (UNKNOWN, UNKNOWN),
) -> ReplyBatches:
    """The batches of a reply to a fetch at `position`, up to the offset `end`.

    The last batch may be cut off by the broker, and is left out then. `begins_inside`: the log may start
    inside the first batch. In a `dense` log no offset is missing: a hole has to be confirmed by a second
    reply. `epochs` are those of the batch before and of the leader. No checksum covers a batch's epoch: a
    higher one than before has to be confirmed by the next batch, or by a second reply.
    """
    scan = scan_headers(data)
    if scan.stop.reason not in (StopReason.END, StopReason.TORN):
        raise UntrustedReply(
            f"{scan.stop.reason.name} at byte {scan.stop.position} of a reply for offset {position}"
        )
    rows = scan.columns
    last = _last_offsets(rows)
    wanted = np.flatnonzero((last >= position) & (rows.base_offset < end))
    _check_order(rows, last, wanted, position, begins_inside=begins_inside)
    _check_epochs(rows.partition_leader_epoch[wanted], *epochs)
    hole = UNKNOWN
    if dense and len(wanted):
        wanted, hole = _until_hole(rows, last, wanted, position, confirmed_hole)
    wanted, rise = _until_rise(rows, wanted, epochs[0], confirmed_rise)
    if rise != NO_RISE:  # a hole in front of it stays confirmed until the rise is, too
        hole = UNKNOWN if len(wanted) else confirmed_hole
    if not len(wanted):
        is_known = hole == UNKNOWN and rise == NO_RISE
        is_beyond = bool(rows.rows) and int(rows.base_offset.max()) >= end and is_known
        if is_beyond and dense and confirmed_hole != position:
            is_beyond, hole = False, position
        return ReplyBatches(
            data=memoryview(b""),
            rows=rows.part(0, 0),
            next_offset=end if is_beyond else position,
            hole=hole,
            rise=rise,
        )
    first, stop = int(wanted[0]), int(wanted[-1]) + 1
    start = int(rows.position[first])
    finish = int(rows.position[stop - 1] + rows.size[stop - 1])
    return ReplyBatches(
        data=memoryview(data)[start:finish],
        rows=rows.part(first, stop),
        next_offset=int(last[stop - 1]) + 1,
        hole=hole,
        rise=rise,
    )


def _check_order(
    rows: HeaderColumns, last: Int64s, wanted: Int64s, position: int, *, begins_inside: bool
) -> None:
    """Raises `UntrustedReply` unless the wanted batches follow each other, the first from `position` on."""
    if not len(wanted):
        return
    if len(wanted) != wanted[-1] - wanted[0] + 1 or (np.diff(last[wanted]) <= 0).any():
        raise UntrustedReply(f"batches in a reply for offset {position} are not in order")
    if (rows.base_offset[wanted][1:] <= last[wanted][:-1]).any():
        raise UntrustedReply(f"batches in a reply for offset {position} overlap")
    if rows.base_offset[wanted[0]] < position and not begins_inside:
        raise UntrustedReply(
            f"the reply for offset {position} begins with a batch of offset {rows.base_offset[wanted[0]]}, "
            "which overlaps with one that was fetched before"
        )


def _check_epochs(found: npt.NDArray[np.int32], before: int, leader: int) -> None:
    """Raises `UntrustedReply` if epochs fall, are newer than the leader, or are none."""
    if (found < UNKNOWN).any():
        raise UntrustedReply(f"a batch of leader epoch {found.min()}")
    known = found[found >= 0]
    is_falling = (np.diff(known, prepend=before) < 0).any() if len(known) else False
    if is_falling or (leader != UNKNOWN and len(known) and known.max() > leader):
        raise UntrustedReply(
            f"batches of leader epochs {known.min()} to {known.max()} after epoch {before}, from a leader of "
            f"epoch {leader}"
        )


def _until_hole(
    rows: HeaderColumns, last: Int64s, wanted: Int64s, position: int, confirmed: int
) -> tuple[Int64s, int]:
    """The batches before the first hole that is not confirmed, and where that hole begins."""
    expected = np.concatenate(([position], last[wanted][:-1] + 1))
    # A compressed message of the old formats has the offset of its last record.
    is_hole = (
        (rows.base_offset[wanted] > expected) & (rows.magic[wanted] >= MAGIC_V2) & (expected != confirmed)
    )
    if not is_hole.any():
        return wanted, UNKNOWN
    place = int(np.argmax(is_hole))
    return wanted[:place], int(expected[place])


def _until_rise(
    rows: HeaderColumns, wanted: Int64s, before: int, confirmed: tuple[int, int]
) -> tuple[Int64s, tuple[int, int]]:
    """The batches before the first with a new leader epoch that is not confirmed; its offset and epoch."""
    if not len(wanted):
        return wanted, NO_RISE
    epoch, base = rows.partition_leader_epoch[wanted], rows.base_offset[wanted]
    is_new = epoch > np.maximum.accumulate(np.concatenate(([before], epoch)))[:-1]
    is_confirmed = np.append(np.diff(epoch) == 0, False) | ((base == confirmed[0]) & (epoch == confirmed[1]))
    unsure = np.flatnonzero(is_new & ~is_confirmed)
    if not len(unsure):
        return wanted, NO_RISE
    place = int(unsure[0])
    return wanted[:place], (int(base[place]), int(epoch[place]))


class SegmentWriter:
    """Writes the batches of one partition of a cut; `fetched` is what complete segments have.

    `fetched.json` is one segment behind, so that no write waits for the disk.
    """

    def __init__(self, lake: ObjectStore, source: str, day: date, cut: PartitionCut) -> None:
        self._lake, self._source, self._day, self._cut = lake, source, day, cut
        self.fetched = self._resume()
        self._epochs: LeaderEpochs = replace(cut, epochs=self.fetched.epochs).leader_epochs
        self._epoch_ends = dict(self._ends_before())
        self._file: BufferedWriter | None = None
        self._path = Path()
        self._base = self._size = 0
        self._unlisted: list[PartitionFetched] = []
        self._durable = len(self.fetched.segments)
        self.position = self.fetched.next_offset
        """The offset behind everything written, also to the segment that is open."""

    @property
    def epochs(self) -> LeaderEpochs:
        """Leader epochs of everything written."""
        return self._epochs

    @property
    def epoch_ends(self) -> Epochs:
        """The leader epochs of this cut and the last one before it, with the offset behind our last batch."""
        return tuple(sorted(self._epoch_ends.items()))

    def _ends_before(self) -> Iterator[tuple[int, int]]:
        """The ends of epochs that the last cut and an earlier attempt have fetched."""
        if self._cut.known_end is not None:
            yield self._cut.known_end
        if self.fetched.first_offset == UNKNOWN or not self.fetched.epochs:
            return
        if not self._cut.is_compacted:  # otherwise the end of an epoch may be before the next batch
            for (epoch, _), (_, end) in pairwise(self.fetched.epochs):
                if end > self._cut.start:
                    yield epoch, end
        yield self.fetched.epochs[-1][0], self.fetched.next_offset

    def _key(self, name: str) -> str:
        return source_key(self._source, self._day, self._cut.name, name)

    def _nothing(self) -> PartitionFetched:
        return PartitionFetched(
            topic=self._cut.topic,
            partition=self._cut.partition,
            next_offset=self._cut.start,
            log_start_offset=self._cut.log_start_offset,
            epochs=self._cut.epochs,
        )

    def _resume(self) -> PartitionFetched:
        """What an earlier attempt has completed."""
        key = self._key(FETCHED)
        if self._lake.stat(key) is None:
            return self._nothing()
        return read_fetched(self._lake.read(key), source=self._lake.url_of(key))

    def write(self, taken: ReplyBatches) -> None:
        """Appends whole batches; a full segment is closed first.

        Where a segment ends depends on its batches, not on replies: attempts that write at the same time, or
        late, write the same segments.
        """
        while taken.rows.rows:
            is_open = self._file is not None
            base, size = (self._base, self._size) if is_open else (taken.first_offset, 0)
            count = taken.fitting(base, size)
            if is_open and not count:
                self.close_segment()
                continue
            first, taken = taken.split(max(count, 1))
            self._append(first)
        self.position = taken.next_offset

    def _append(self, taken: ReplyBatches) -> None:
        file = self._open(taken.first_offset)
        with translated(str(self._path)):
            file.write(taken.data)
        self._size += len(taken.data)
        self._follow(taken.rows)
        self.position = taken.next_offset

    def skip_to(self, offset: int) -> None:
        """Continues at `offset`, since the cluster has deleted everything before it."""
        self.close_segment()
        self.position = offset
        self.fetched = replace(self.fetched, log_start_offset=offset, next_offset=offset)

    def close_segment(self) -> None:
        """The open segment gets its name; the one before it is listed, since it should be on the disk now."""
        if self._file is None:
            return
        with translated(str(self._path)):
            self._file.close()
        self._file = None
        name = f"{self._base:020d}.log"
        self._lake.adopt(self._path, self._key(name), durable=False)
        first = self._base if self.fetched.first_offset == UNKNOWN else self.fetched.first_offset
        segments, size = (*self.fetched.segments, name), self.fetched.size + self._size
        self._advance(first_offset=first, segments=segments, size=size)
        self._unlisted.append(self.fetched)
        if len(self._unlisted) > 1:
            self._list(self._unlisted.pop(0))

    def finish(self, *, is_gone: bool = False) -> PartitionFetched:
        """Everything is written and listed."""
        self.close_segment()
        self._advance(is_gone=is_gone)
        self._list(self.fetched)
        self._unlisted.clear()
        return self.fetched

    def list_rest(self) -> None:
        """Lists the segments that are complete."""
        if self._unlisted:
            self._list(self._unlisted[-1])
            self._unlisted.clear()

    def finish_without(self) -> PartitionFetched:
        """Nothing of this cut is kept: what was written may be of another topic of the same name."""
        self.discard()
        self.fetched, segments = replace(self._nothing(), is_gone=True), self.fetched.segments
        self._lake.put(self._key(FETCHED), fetched_bytes(self.fetched))
        self._unlisted.clear()
        for name in segments:
            self._lake.delete(self._key(name))
        return self.fetched

    def _advance(self, **changes: object) -> None:
        epochs = tuple((entry.epoch, entry.start_offset) for entry in self._epochs.entries)
        self.fetched = replace(self.fetched, next_offset=self.position, epochs=epochs, **changes)  # type: ignore[arg-type]

    def _list(self, fetched: PartitionFetched) -> None:
        """Once its segments are on the disk: the system has been writing them since they were closed."""
        self._lake.make_durable([self._key(name) for name in fetched.segments[self._durable :]])
        self._durable = len(fetched.segments)
        self._lake.put(self._key(FETCHED), fetched_bytes(fetched))

    def _open(self, base: int) -> BufferedWriter:
        if self._file is None:
            self._path = self._lake.scratch() / secrets.token_hex(8)
            with translated(str(self._path)):
                self._file = self._path.open("wb")
            self._base, self._size = base, 0
        return self._file

    def _follow(self, rows: HeaderColumns) -> None:
        """The leader epochs of new batches."""
        epoch = rows.partition_leader_epoch
        for place in np.flatnonzero(np.diff(epoch, prepend=self._epochs.latest_epoch) != 0).tolist():
            if epoch[place] >= 0:
                self._epochs = self._epochs.assign(int(epoch[place]), int(rows.base_offset[place]))
        last = _last_offsets(rows)
        for place in np.flatnonzero(np.diff(epoch, append=NO_EPOCH) != 0).tolist():
            if epoch[place] >= 0:
                self._epoch_ends[int(epoch[place])] = int(last[place]) + 1

    def discard(self) -> None:
        """Removes the segment that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


@contextmanager
def open_writer(lake: ObjectStore, source: str, day: date, cut: PartitionCut) -> Iterator[SegmentWriter]:
    """A writer whose open segment is removed if the fetch fails; complete ones are listed."""
    writer = SegmentWriter(lake, source, day, cut)
    try:
        yield writer
    finally:
        writer.discard()
        writer.list_rest()
