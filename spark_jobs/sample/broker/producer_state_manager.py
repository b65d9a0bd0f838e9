"""A partition's producer state over time: appends, snapshots, truncation, expiry (facts §2.10, §2.12).

The accept/reject rules are in `kafka.producers.admission`; this module merges their results. Snapshot "files"
are a mapping from offset to bytes that the caller may share between managers, like a directory.
"""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.kafka.errors import CorruptData, CorruptSnapshot, UnloadableLog
from spark_jobs.kafka.formats.control_record import EndTransactionMarker, read_marker
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP, RecordBatchHeader
from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.log.segment import ScannedBatch
from spark_jobs.kafka.producers.admission import append_batch, has_ongoing_transaction, merge, prepare
from spark_jobs.kafka.producers.producer_state import (
    AppendOrigin,
    CompletedTxn,
    ProducerStateEntry,
    ProducerStates,
    TxnMetadata,
    VerificationStateEntry,
)
from spark_jobs.kafka.producers.verdict import (
    NO_GUARD,
    NO_VERIFICATION,
    Admission,
    Decision,
    ProducerAppendInfo,
    Rules,
    Verdict,
    Verification,
    accept_plain,
)
from spark_jobs.sample.broker.log_segment import LogSegment, base_offset_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerification:
    """The start of a verification with the coordinator (facts §2.5); a stale epoch is fenced at once.

    The append must have the same `guard`; NO_GUARD means that the transaction is already open.
    """

    guard: int = NO_GUARD
    is_fenced: bool = False


def with_attempt(state: VerificationStateEntry, sequence: int, producer_epoch: int) -> VerificationStateEntry:
    """`state` after another attempt: with an earlier sequence, or a newer epoch."""
    if producer_epoch > state.producer_epoch:
        return replace(state, lowest_sequence=sequence, producer_epoch=producer_epoch)
    if producer_epoch == state.producer_epoch:
        return replace(state, lowest_sequence=min(sequence, state.lowest_sequence))
    return state


def is_for_next_transaction(state: VerificationStateEntry, marker_epoch: int) -> bool:
    """Whether a marker of that epoch ends the transaction before the one of `state` (TV2)."""
    return state.supports_epoch_bump and state.producer_epoch == marker_epoch


PRODUCER_ID_EXPIRATION_MS = 86_400_000
MAX_TRANSACTION_TIMEOUT_MS = 900_000
LATE_TRANSACTION_BUFFER_MS = 300_000


class ProducerStateManager:
    """All producers of one partition up to (excluding) `last_map_offset`, and their snapshots."""

    def __init__(
        self,
        snapshots: MutableMapping[int, bytes] | None = None,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self.snapshots: MutableMapping[int, bytes] = {} if snapshots is None else snapshots
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self.producers: dict[int, ProducerStateEntry] = {}
        self.ongoing_txns: dict[int, TxnMetadata] = {}
        self.unreplicated_txns: dict[int, TxnMetadata] = {}
        self.verification_states: dict[int, VerificationStateEntry] = {}
        self.last_map_offset = 0
        self.last_snap_offset = 0
        self._last_guard = NO_GUARD

    @property
    def states(self) -> ProducerStates:
        """The producers as a value that later appends do not change."""
        return ProducerStates(producers=dict(self.producers), end_offset=self.last_map_offset)

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self.unreplicated_txns

    @property
    def latest_snapshot_offset(self) -> int | None:
        return max(self.snapshots, default=None)

    @property
    def oldest_snapshot_offset(self) -> int | None:
        return min(self.snapshots, default=None)

    # -- merging an append ---------------------------------------------------------------------------------

    def update(self, info: ProducerAppendInfo, started: Iterable[TxnMetadata] = ()) -> None:
        """Merges one append's changes to one producer, and the transactions that it opened."""
        self.producers[info.stored.producer_id] = merge(info)
        for txn in started:
            self.ongoing_txns[txn.first_offset] = txn

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Completes a transaction, which stays unstable until its marker is replicated."""
        txn = self.ongoing_txns.pop(completed.first_offset)
        self.unreplicated_txns[completed.first_offset] = replace(txn, last_offset=completed.last_offset)

    def update_map_end_offset(self, offset: int) -> None:
        self.last_map_offset = offset

    # -- unstable offsets (facts §4.1) ---------------------------------------------------------------------

    @property
    def first_undecided_offset(self) -> int | None:
        return min(self.ongoing_txns, default=None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Start of the oldest transaction that is undecided, or whose marker is not replicated yet."""
        return min((*self.ongoing_txns, *self.unreplicated_txns), default=None)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The LSO as the transaction index records it: as if everything were replicated (facts §1.9)."""
        others = (o for o, txn in self.ongoing_txns.items() if txn.producer_id != completed.producer_id)
        return min(others, default=completed.last_offset + 1)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._remove_unreplicated_before(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Drops decided transactions only: producers and open transactions outlive their data."""
        self._remove_unreplicated_before(log_start_offset)
        self.last_map_offset = max(self.last_map_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self.last_snap_offset = log_start_offset if latest is None else latest

    def _remove_unreplicated_before(self, offset: int) -> None:
        for first_offset, txn in list(self.unreplicated_txns.items()):
            if txn.last_offset is not None and txn.last_offset < offset:
                del self.unreplicated_txns[first_offset]

    # -- snapshots (facts §2.12) ---------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Write the state at `last_map_offset`, if it has moved since the last snapshot.

        A longer file of the same name is not truncated first, exactly as a broker leaves it (facts §1.8).
        """
        if self.last_map_offset <= self.last_snap_offset:
            return
        data = write_snapshot([self.producers[producer_id] for producer_id in sorted(self.producers)])
        old = self.snapshots.get(self.last_map_offset, b"")
        self.snapshots[self.last_map_offset] = data + old[len(data) :]
        self.last_snap_offset = self.last_map_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now: int) -> None:
        """Drop snapshots outside (start, end] and, unless nothing changes, restart from the newest left."""
        for offset in list(self.snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                del self.snapshots[offset]
        if log_end_offset == self.last_map_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_from_snapshot(log_start_offset, now)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything, snapshots too; the next batch has `offset`."""
        self._clear()
        self.snapshots.clear()
        self.last_snap_offset = 0
        self.last_map_offset = offset

    def truncate_fully_and_reload_snapshots(self, snapshots: Mapping[int, bytes]) -> None:
        """Drops everything, then adopts snapshots that were fetched from elsewhere (facts §1.15)."""
        self.truncate_fully_and_start_at(0)
        self.snapshots.update(snapshots)

    def _clear(self) -> None:
        self.producers.clear()
        self.ongoing_txns.clear()
        self.unreplicated_txns.clear()

    def _load_from_snapshot(self, log_start_offset: int, now: int) -> None:
        self.last_snap_offset = self.last_map_offset = log_start_offset
        while (latest := self.latest_snapshot_offset) is not None:
            try:
                entries = read_snapshot(self.snapshots[latest], source=f"{latest:020d}.snapshot")
            except CorruptSnapshot:
                del self.snapshots[latest]
                continue
            self._load_entries(entries, now)
            self.last_snap_offset = self.last_map_offset = latest
            return

    def _load_entries(self, entries: Iterable[ProducerStateEntry], now: int) -> None:
        for entry in entries:
            if not self._is_expired(entry, now):
                self.load_producer_entry(entry)

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        """Adds one producer as it is, with its open transaction."""
        self.producers[entry.producer_id] = entry
        if entry.current_txn_first_offset is not None:
            txn = TxnMetadata(producer_id=entry.producer_id, first_offset=entry.current_txn_first_offset)
            self.ongoing_txns[txn.first_offset] = txn

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        """Keep snapshots at segment bases, and the newest other one if no segment begins after it."""
        bases = set(segment_base_offsets)
        strays = sorted(offset for offset in self.snapshots if offset not in bases)
        newest_is_useful = bool(strays) and strays[-1] >= max(bases, default=strays[-1])
        for offset in strays[:-1] if newest_is_useful else strays:
            del self.snapshots[offset]

    def delete_snapshots_before(self, offset: int) -> None:
        for snapshot in [o for o in self.snapshots if o < offset]:
            del self.snapshots[snapshot]

    def remove_snapshot(self, offset: int) -> bytes | None:
        """Removes and returns the snapshot at `offset`, as a segment's deletion does; None if missing."""
        return self.snapshots.pop(offset, None)

    # -- time (facts §2.10, §3.9) --------------------------------------------------------------------------

    def _is_expired(self, entry: ProducerStateEntry, now: int) -> bool:
        idle = now - entry.last_timestamp
        return entry.current_txn_first_offset is None and idle >= self.producer_id_expiration_ms

    def remove_expired_producers(self, now: int) -> None:
        """Removes idle producers; their epoch no longer fences and any sequence is accepted again."""
        for producer_id, entry in list(self.producers.items()):
            if self._is_expired(entry, now):
                del self.producers[producer_id]
        for producer_id, state in list(self.verification_states.items()):
            if now - state.timestamp >= self.producer_id_expiration_ms:
                del self.verification_states[producer_id]

    @property
    def oldest_txn_last_timestamp(self) -> int:
        """When the producer of the oldest open transaction last wrote; -1 if nothing is open."""
        oldest = self.first_undecided_offset
        if oldest is None:
            return NO_TIMESTAMP
        return self.producers[self.ongoing_txns[oldest].producer_id].last_timestamp

    def has_late_transaction(self, now: int) -> bool:
        """Whether the oldest open transaction should long have timed out at its coordinator."""
        last = self.oldest_txn_last_timestamp
        return last > 0 and now - last > self.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    # -- verification (facts §2.5) -------------------------------------------------------------------------

    def maybe_start_transaction_verification(
        self, *, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: bool, now: int
    ) -> TransactionVerification:
        """Begins a verification: returns the guard that the append must have."""
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return TransactionVerification(is_fenced=True)
        if has_ongoing_transaction(entry, producer_epoch):
            return TransactionVerification()
        state = self.maybe_create_verification_state(
            producer_id, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump, now=now
        )
        return TransactionVerification(guard=state.guard)

    def maybe_create_verification_state(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool, now: int
    ) -> VerificationStateEntry:
        """A new entry with a guard of its own, or the old one updated."""
        known = self.verification_states.get(producer_id)
        if known is None:
            self._last_guard += 1
            known = VerificationStateEntry(
                guard=self._last_guard,
                lowest_sequence=sequence,
                producer_epoch=producer_epoch,
                supports_epoch_bump=supports_epoch_bump,
                timestamp=now,
            )
        self.verification_states[producer_id] = with_attempt(known, sequence, producer_epoch)
        return self.verification_states[producer_id]

    def clear_verification_state(self, producer_id: int, producer_epoch: int, *, is_marker: bool) -> None:
        """Ends the verification of an appended batch; a TV2 marker keeps that of the next transaction."""
        state = self.verification_states.get(producer_id)
        if state is not None and not (is_marker and is_for_next_transaction(state, producer_epoch)):
            del self.verification_states[producer_id]


REPLAY = Rules(origin=AppendOrigin.REPLICATION)
"""Batches in a log are applied without checks (facts §2.9), except that of the open transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerUpdates:
    """The effects of one append on a partition's producers, before they are merged or written."""

    infos: dict[int, ProducerAppendInfo]
    started: tuple[TxnMetadata, ...]
    completed: tuple[CompletedTxn, ...]


def analyze(
    manager: ProducerStateManager,
    records: bytes | bytearray,
    batches: Sequence[ScannedBatch],
    rules: Rules,
    verification: Verification = NO_VERIFICATION,
) -> tuple[Decision, ProducerUpdates]:
    """Checks all batches of one append; the first that is not accepted decides for all.

    Of the manager only verifications change at once, as in a broker. `records` holds the batches at their
    positions; only control batches are read.
    """
    infos: dict[int, ProducerAppendInfo] = {}
    started: list[TxnMetadata] = []
    completed: list[CompletedTxn] = []
    decision = Decision(verdict=Verdict.ACCEPTED)
    for batch in batches:
        admission = _admit(manager, infos, records, batch, rules=rules, verification=verification)
        decision = admission.decision
        if decision.verdict is not Verdict.ACCEPTED:
            break
        if admission.info is not None:
            infos[batch.header.producer_id] = admission.info
        _clear_verification(manager, batch)
        started += [admission.started] if admission.started else []
        completed += [admission.completed] if admission.completed else []
    if decision.verdict is Verdict.ACCEPTED:
        decision = replace(decision, base_offset=base_offset_of(batches[0]))
    return decision, ProducerUpdates(infos=infos, started=tuple(started), completed=tuple(completed))


def _admit(
    manager: ProducerStateManager,
    infos: dict[int, ProducerAppendInfo],
    records: bytes | bytearray,
    batch: ScannedBatch,
    *,
    rules: Rules,
    verification: Verification,
) -> Admission:
    header, offset = batch.header, base_offset_of(batch)
    if isinstance(header, LegacyHeader):
        return Admission(decision=Decision(verdict=Verdict.ACCEPTED, base_offset=offset, last_offset=offset))
    if not header.has_producer_id:
        return Admission(decision=accept_plain(header, offset))
    producer_id = header.producer_id
    info = infos.get(producer_id) or prepare(manager.producers.get(producer_id), producer_id)
    return append_batch(
        info,
        header,
        offset=offset,
        rules=rules,
        marker=_marker_in(records, batch),
        verification=replace(verification, entry=manager.verification_states.get(producer_id)),
    )


def _clear_verification(manager: ProducerStateManager, batch: ScannedBatch) -> None:
    """A transactional batch ends its producer's verification, also in a replay (facts §2.5)."""
    header = batch.header
    if isinstance(header, RecordBatchHeader) and header.has_producer_id and header.is_transactional:
        manager.clear_verification_state(
            header.producer_id, header.producer_epoch, is_marker=header.is_control
        )


def _marker_in(records: bytes | bytearray, batch: ScannedBatch) -> EndTransactionMarker | None:
    """The marker of a control batch; None if there is none or it is unreadable, which rejects the batch."""
    try:
        return read_marker(bytes(records[batch.position : batch.end])) if batch.header.is_control else None
    except CorruptData:
        return None


def merge_updates(manager: ProducerStateManager, updates: ProducerUpdates) -> None:
    """Merges an append's effects into the manager; transactions stay open until `complete_txn`."""
    for producer_id, info in updates.infos.items():
        manager.update(info, [txn for txn in updates.started if txn.producer_id == producer_id])


def replay_batch(manager: ProducerStateManager, segment: LogSegment, batch: ScannedBatch) -> None:
    """Applies one batch of a segment under recovery to state and transaction index (facts §6.1)."""
    updates = _replay(manager, segment, [batch])
    for completed in updates.completed:
        segment.update_txn_index(completed, manager.last_stable_offset(completed))
        manager.complete_txn(completed)
    manager.update_map_end_offset(batch.header.next_offset)


def _replay(
    manager: ProducerStateManager, segment: LogSegment, batches: Sequence[ScannedBatch]
) -> ProducerUpdates:
    decision, updates = analyze(manager, segment.data, batches, REPLAY)
    if decision.verdict is not Verdict.ACCEPTED:
        raise UnloadableLog(
            source=f"{segment.base_offset:020d}.log",
            position=batches[0].position,
            expected="batches that replay",
            found=f"{decision.verdict} ({decision.kafka_error.name})",
        )
    merge_updates(manager, updates)
    return updates


def rebuild_producer_state(
    manager: ProducerStateManager,
    segments: Sequence[LogSegment],
    log_start_offset: int,
    last_offset: int,
    *,
    now: int,
    clean: bool,
) -> None:
    """Rebuilds `manager` up to `last_offset` from the newest usable snapshot and the log (facts §2.12).

    After a clean shutdown without any snapshot nothing is read: empty snapshots are written, state is lost.
    """
    to_snapshot = {segment.base_offset for segment in segments[-2:]}
    if clean and manager.latest_snapshot_offset is None:
        for offset in sorted(to_snapshot | {last_offset}):
            manager.update_map_end_offset(offset)
            manager.take_snapshot()
        return
    was_empty = manager.is_empty and manager.last_map_offset >= last_offset
    manager.truncate_and_reload(log_start_offset, last_offset, now)
    if last_offset > manager.last_map_offset and not was_empty:
        for segment in _overlapping(segments, manager.last_map_offset, last_offset):
            _replay_segment(manager, segment, log_start_offset, last_offset, to_snapshot)
    manager.update_map_end_offset(last_offset)
    manager.take_snapshot()


def _overlapping(segments: Sequence[LogSegment], start: int, end: int) -> Iterable[LogSegment]:
    """Segments from the one that holds `start` to the last that begins before `end`."""
    first = max((segment.base_offset for segment in segments if segment.base_offset <= start), default=start)
    return [segment for segment in segments if first <= segment.base_offset < end]


def _replay_segment(
    manager: ProducerStateManager,
    segment: LogSegment,
    log_start_offset: int,
    last_offset: int,
    to_snapshot: set[int],
) -> None:
    """Replays from the batch with the start offset to the one with `last_offset`."""
    start = max(segment.base_offset, manager.last_map_offset, log_start_offset)
    manager.update_map_end_offset(start)
    if segment.base_offset in to_snapshot:
        manager.take_snapshot()
    batches = segment.batches[segment.index_of(start) : segment.index_of(last_offset)]
    if batches:
        for completed in _replay(manager, segment, batches).completed:
            manager.complete_txn(completed)
