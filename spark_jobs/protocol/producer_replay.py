"""Producer state from batches: judging an append as a whole, rebuilding state from a log (facts §2.12)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spark_jobs.protocol.admission import append_batch, prepare
from spark_jobs.protocol.control_record import EndTransactionMarker, read_marker
from spark_jobs.protocol.decision import (
    NO_VERIFICATION,
    Admission,
    Decision,
    ProducerAppendInfo,
    Rules,
    Verification,
    accept_plain,
)
from spark_jobs.protocol.errors import CorruptData, UnloadableLog
from spark_jobs.protocol.legacy import LegacyHeader
from spark_jobs.protocol.log_segment import LogSegment, base_offset_of
from spark_jobs.protocol.producer_state import AppendOrigin, CompletedTxn, TxnMetadata
from spark_jobs.protocol.producer_state_manager import ProducerStateManager
from spark_jobs.protocol.record_batch import RecordBatchHeader
from spark_jobs.protocol.segment import ScannedBatch
from spark_jobs.protocol.verdict import Verdict

REPLAY = Rules(origin=AppendOrigin.REPLICATION)
"""What is already in a log is applied, not judged (facts §2.9); only an open transaction can refuse it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerUpdates:
    """What a run of batches does to a partition's producers, before anything is merged or written."""

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
    """Judge all batches of one append; the first that is not accepted decides for all.

    Of the manager only verifications change at once, as at a broker. `records` holds the batches at their
    positions; of them only control batches are read.
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
    """A transactional batch settles what its producer was asked to verify, also in a replay (facts §2.5)."""
    header = batch.header
    if isinstance(header, RecordBatchHeader) and header.has_producer_id and header.is_transactional:
        manager.clear_verification_state(
            header.producer_id, header.producer_epoch, is_marker=header.is_control
        )


def _marker_in(records: bytes | bytearray, batch: ScannedBatch) -> EndTransactionMarker | None:
    """The marker of a control batch; None if there is none or it cannot be read, which refuses the batch."""
    try:
        return read_marker(bytes(records[batch.position : batch.end])) if batch.header.is_control else None
    except CorruptData:
        return None


def merge_updates(manager: ProducerStateManager, updates: ProducerUpdates) -> None:
    """Let the manager know what an append did; transactions stay open until `complete_txn`."""
    for producer_id, info in updates.infos.items():
        manager.update(info, [txn for txn in updates.started if txn.producer_id == producer_id])


def replay_batch(manager: ProducerStateManager, segment: LogSegment, batch: ScannedBatch) -> None:
    """One batch of a segment under recovery: state, and the transaction index with it (facts §6.1)."""
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
    """Bring `manager` to `last_offset` from the newest usable snapshot and the tail behind it (facts §2.12).

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
    """Replay from the batch that holds the start offset, as far as the one that holds `last_offset`."""
    start = max(segment.base_offset, manager.last_map_offset, log_start_offset)
    manager.update_map_end_offset(start)
    if segment.base_offset in to_snapshot:
        manager.take_snapshot()
    batches = segment.batches[segment.index_of(start) : segment.index_of(last_offset)]
    if batches:
        for completed in _replay(manager, segment, batches).completed:
            manager.complete_txn(completed)
