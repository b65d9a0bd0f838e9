"""Snapshots that were staged with a log, newest first; what a broker would not trust is passed over."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.producers import PRODUCER, Rows
from spark_jobs.kernels.snapshots import read_snapshot
from spark_jobs.kernels.transactions import NO_MARKER, TRANSACTION
from spark_jobs.protocol.errors import CorruptSnapshot
from spark_jobs.protocol.log_files import parse_file_name
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.storage.errors import StorageError
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.staged import StagedObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSnapshot:
    """The producers before `offset`; without a `name` there was none, and nothing is known."""

    offset: int = 0
    name: str | None = None
    producers: Rows
    skipped: tuple[str, ...] = ()


def offset_of(entry: ManifestEntry) -> int:
    """The offset in a segment file's name."""
    file = parse_file_name(entry.name)
    return NO_OFFSET if file is None else file.offset


def newest_snapshot(entries: Iterable[ManifestEntry], staged: StagedObjects) -> FoundSnapshot:
    """The newest of `entries` that can be read, and why newer ones cannot."""
    skipped: list[str] = []
    for entry in sorted(entries, key=lambda entry: (-offset_of(entry), entry.path)):
        name = f"{entry.source}/{entry.path}"
        try:
            producers = _last_of_each(read_snapshot(staged.read(entry), source=name))
        except (CorruptSnapshot, StorageError) as error:
            if error.transient:
                raise
            skipped.append(str(error))
            continue
        return FoundSnapshot(offset=offset_of(entry), name=name, producers=producers, skipped=tuple(skipped))
    return FoundSnapshot(producers=np.empty(0, dtype=PRODUCER), skipped=tuple(skipped))


def _last_of_each(producers: Rows) -> Rows:
    """A producer that is there twice is the last one, as in a broker's map."""
    _, backwards = np.unique(producers["producer_id"][::-1], return_index=True)
    return producers[np.sort(len(producers) - 1 - backwards)]


def is_expired(producers: Rows, *, now: int, expiration_ms: int) -> npt.NDArray[np.bool_]:
    """Which ones a broker would have forgotten: idle for so long, and in no transaction (facts §2.10)."""
    is_idle = now - producers["last_timestamp"] >= expiration_ms
    expired: npt.NDArray[np.bool_] = is_idle & (producers["txn_first_offset"] == NO_OFFSET)
    return expired


def open_before(entries: Iterable[ManifestEntry], offset: int, staged: StagedObjects) -> Rows:
    """The producers that the newest snapshot behind `offset` knows in transactions that began before it.

    A broker keeps such a transaction though all of its batches may be deleted: its last stable offset waits
    at the log start (facts §2.12, §8.20). What is open at the snapshot was open at `offset`, too.
    """
    producers = newest_snapshot((entry for entry in entries if offset_of(entry) > offset), staged).producers
    first = producers["txn_first_offset"]
    older: Rows = producers[(first != NO_OFFSET) & (first < offset)]
    return older


def newest_offsets(producers: Rows) -> npt.NDArray[np.int64]:
    """The last offset of each producer's newest batch, `NO_OFFSET` without any."""
    newest = (producers["oldest"] + np.maximum(producers["batches"], 1) - 1)[:, np.newaxis] % 5
    last_offset = np.take_along_axis(producers["last_offset"], newest, axis=1)[:, 0]
    return np.where(producers["batches"] > 0, last_offset, NO_OFFSET)


def open_transactions_of(producers: Rows) -> Rows:
    """What a snapshot tells of open transactions: where they begin, and that they hold a batch at least."""
    is_open = producers["txn_first_offset"] != NO_OFFSET
    opened = producers[is_open]
    rows = np.zeros(len(opened), dtype=TRANSACTION)
    last_offset = newest_offsets(opened)
    rows["producer_id"] = opened["producer_id"]
    rows["first_offset"] = opened["txn_first_offset"]
    rows["last_offset"] = np.where(last_offset != NO_OFFSET, last_offset, opened["txn_first_offset"])
    rows["batches"] = 1
    rows["first_timestamp"] = rows["last_timestamp"] = opened["last_timestamp"]
    rows["producer_epoch"] = rows["first_epoch"] = opened["producer_epoch"]
    rows["began_before"] = 1
    rows["gap_first_offset"] = rows["gap_last_offset"] = NO_OFFSET
    for name in ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp"):
        rows[name] = NO_MARKER
    return rows[np.argsort(rows["first_offset"])]
