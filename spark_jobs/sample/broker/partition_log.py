"""A broker's partition in memory: appends as leader and as follower, and fetches (facts §2.3, §4.3).

Bytes in, bytes out; the clock is an argument. `log_loader` loads such a log from its files.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.kafka.errors import CorruptData, InvalidRecord, KafkaError, TornBatch
from spark_jobs.kafka.formats.checkpoints import LeaderEpochs
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP, TimestampType
from spark_jobs.kafka.log.segment import MAX_RELATIVE_OFFSET, ScannedBatch, check_scanned_crc, scan_result
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.verdict import NO_GUARD, Decision, Rules, Verdict, Verification
from spark_jobs.sample.broker.log_segment import (
    LogSegment,
    aborted_for_fetch,
    base_offset_of,
)
from spark_jobs.sample.broker.log_validator import (
    RecordError,
    RejectedBatch,
    check_produce_request,
    check_whole_batch,
    validate,
)
from spark_jobs.sample.broker.producer_state_manager import (
    ProducerUpdates,
    TransactionVerification,
    analyze,
    merge_updates,
)
from spark_jobs.sample.broker.replica_log import CannotRoll, ReplicaLog

CORRUPT_ERRORS = frozenset({KafkaError.CORRUPT_MESSAGE, KafkaError.UNKNOWN_SERVER_ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The fields of a produce reply, -1 for those without a value, and the decision on the batch.

    `log_append_time` is -1 for batches accepted on a CreateTime topic, the original's timestamp for a
    duplicate.
    """

    decision: Decision
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    record_errors: tuple[RecordError, ...] = ()

    @property
    def kafka_error(self) -> KafkaError:
        return self.decision.kafka_error

    @property
    def base_offset(self) -> int:
        return self.decision.base_offset

    @property
    def message(self) -> str | None:
        return self.decision.message


def failed(failure: RejectedBatch, log_start_offset: int) -> AppendResult:
    """The reply to a batch that was rejected before the check of its producer state."""
    is_corrupt = failure.kafka_error in CORRUPT_ERRORS
    return AppendResult(
        decision=Decision(
            verdict=Verdict.CORRUPT if is_corrupt else Verdict.INVALID_RECORD,
            kafka_error=failure.kafka_error,
            message=failure.message,
        ),
        log_start_offset=log_start_offset if failure.knows_log_start else NO_OFFSET,
        record_errors=failure.record_errors,
    )


def follower_batches(records: bytes, *, leader_epoch: int, log_end_offset: int) -> tuple[ScannedBatch, ...]:
    """The batches of a fetch response to append; a torn last one is left out, disorder and corruption raise.

    Batches from the first of a newer leader epoch on are left out, and only their frames are checked. The
    first batch must not begin before the log's end, and last offsets must ascend (facts §2.3).
    """
    result = scan_result(records, check_crc=False)
    if result.problem is not None and not isinstance(result.problem, TornBatch):
        raise result.problem
    kept: list[ScannedBatch] = []
    for batch in result.batches:
        if batch.header.partition_leader_epoch > leader_epoch:
            break
        check_scanned_crc(records, batch)
        expected = kept[-1].header.next_offset if kept else log_end_offset
        found = batch.header.last_offset if kept else base_offset_of(batch)
        if found < expected:
            raise InvalidRecord(position=batch.position, expected=f"offset {expected} or more", found=found)
        kept.append(batch)
    return tuple(kept)


class PartitionLog(ReplicaLog):
    """A log that accepts appends; as leader it writes `leader_epoch` to batches."""

    def append(
        self,
        records: bytes,
        *,
        now: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: TransactionVersion | None = None,
        verification_guard: int = NO_GUARD,
    ) -> AppendResult:
        """One leader append, in a broker's order (facts §2.3); a duplicate can still roll a segment.

        A marker needs an explicit `transaction_version`, by which its epoch is checked.
        """
        failure = check_produce_request(records) if origin is AppendOrigin.CLIENT else None
        if failure is not None:
            return failed(failure, self.log_start_offset)
        checked = check_whole_batch(records, self.config, origin)
        if isinstance(checked, RejectedBatch):
            return failed(checked, self.log_start_offset)
        validated = validate(
            records[: checked.size],
            config=self.config,
            origin=origin,
            offset=self.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
            now=now,
        )
        if isinstance(validated, RejectedBatch):
            return failed(validated, self.log_start_offset)
        if checked.is_control and transaction_version is None:
            raise ValueError("a leader appends a marker only with its transaction version")
        rules = Rules(origin=origin, transaction_version=transaction_version or TransactionVersion.TV0)
        batches = (ScannedBatch(position=0, header=validated.header),)
        return self._append(validated.batch, batches, rules, verification_guard, now)

    def append_as_follower(self, records: bytes, *, now: int) -> AppendResult:
        """Appends the whole batches of one fetch as one append, with the leader's offsets (facts §2.3)."""
        try:
            batches = follower_batches(
                records, leader_epoch=self.leader_epoch, log_end_offset=self.log_end_offset
            )
        except CorruptData as error:
            failure = RejectedBatch(
                kafka_error=KafkaError.CORRUPT_MESSAGE, message=str(error), knows_log_start=False
            )
            return failed(failure, self.log_start_offset)
        if not batches:
            return AppendResult(
                decision=Decision(verdict=Verdict.ACCEPTED), log_start_offset=self.log_start_offset
            )
        rules = Rules(origin=AppendOrigin.REPLICATION)
        return self._append(records[: batches[-1].end], batches, rules, NO_GUARD, now)

    def _append(
        self,
        records: bytes,
        batches: tuple[ScannedBatch, ...],
        rules: Rules,
        guard: int,
        now: int,
    ) -> AppendResult:
        self._assign_leader_epochs(batches)
        if len(records) > self.config.segment_bytes:
            message = f"{len(records)} bytes, more than a segment of {self.config.segment_bytes}"
            failure = RejectedBatch(
                kafka_error=KafkaError.RECORD_LIST_TOO_LARGE, message=message, knows_log_start=False
            )
            return failed(failure, self.log_start_offset)
        try:
            self._maybe_roll(records, batches, now)
        except CannotRoll as error:
            return failed(_unexpected(str(error)), self.log_start_offset)
        decision, updates = analyze(self.manager, records, batches, rules, self._verification(guard))
        if decision.verdict is Verdict.ACCEPTED and self._overflows(batches):
            return failed(_unexpected(self._overflow(batches)), self.log_start_offset)
        if decision.verdict is Verdict.ACCEPTED:
            self._write(records, batches, updates)
        return AppendResult(
            decision=decision,
            log_append_time=self._log_append_time(decision, rules, now),
            log_start_offset=self.log_start_offset,
        )

    def _assign_leader_epochs(self, batches: tuple[ScannedBatch, ...]) -> None:
        for batch in batches:
            epoch = batch.header.partition_leader_epoch
            if epoch >= 0:
                self.leader_epochs = self.leader_epochs.assign(epoch, base_offset_of(batch))
            elif isinstance(batch.header, LegacyHeader):
                self.leader_epochs = LeaderEpochs()

    def _log_append_time(self, decision: Decision, rules: Rules, now: int) -> int:
        is_log_append = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        if decision.verdict is Verdict.ACCEPTED and rules.origin is not AppendOrigin.REPLICATION:
            return now if is_log_append else -1
        return decision.log_append_time

    def _verification(self, guard: int) -> Verification:
        return Verification(enabled=self.config.transaction_partition_verification_enable, guard=guard)

    def _write(self, records: bytes, batches: tuple[ScannedBatch, ...], updates: ProducerUpdates) -> None:
        segment = self.segments[-1]
        segment.append(records, batches)
        self.log_end_offset = batches[-1].header.next_offset
        merge_updates(self.manager, updates)
        for completed in updates.completed:
            segment.update_txn_index(completed, self.manager.last_stable_offset(completed))
            self.manager.complete_txn(completed)
        self.manager.update_map_end_offset(self.log_end_offset)

    def _overflows(self, batches: tuple[ScannedBatch, ...]) -> bool:
        """Whether the last offset does not fit into the 31 bits of the active segment's indexes."""
        relative = batches[-1].header.last_offset - self.segments[-1].base_offset
        return not 0 <= relative <= MAX_RELATIVE_OFFSET

    def _overflow(self, batches: tuple[ScannedBatch, ...]) -> str:
        """Raises if one append spans more offsets than a segment can: only a follower's can (facts §2.3)."""
        base, last = self.segments[-1].base_offset, batches[-1].header.last_offset
        return f"offset {last} in a segment from {base}: at most {MAX_RELATIVE_OFFSET} offsets behind it"

    def _maybe_roll(self, records: bytes, batches: tuple[ScannedBatch, ...], now: int) -> None:
        segment = self.segments[-1]
        is_full = segment.size > self.config.segment_bytes - len(records)
        newest = max(batch.header.max_timestamp for batch in batches)
        if is_full or self._overflows(batches) or (segment.size > 0 and self._waited(segment, newest, now)):
            self.roll(now, base_offset_of(batches[0]))

    def _waited(self, segment: LogSegment, newest: int, now: int) -> bool:
        """Whether the first batch is older than `segment.ms`, by the log's own time if it has one."""
        first = segment.batches[0].header.max_timestamp if segment.batches else -1
        waited = newest - first if first >= 0 else now - segment.created
        return waited > self.config.segment_ms

    def maybe_start_transaction_verification(
        self, *, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: bool, now: int
    ) -> TransactionVerification:
        """Begins the verification with the coordinator; pass the guard on to `append` (facts §2.5)."""
        return self.manager.maybe_start_transaction_verification(
            producer_id=producer_id,
            sequence=sequence,
            producer_epoch=producer_epoch,
            supports_epoch_bump=supports_epoch_bump,
            now=now,
        )


def _unexpected(message: str) -> RejectedBatch:
    """Reply to an error that a broker has no error code for."""
    return RejectedBatch(kafka_error=KafkaError.UNKNOWN_SERVER_ERROR, message=message, knows_log_start=False)


NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A fetch reply: batches of one segment from the fetch offset on, and their aborted transactions."""

    batches: tuple[ScannedBatch, ...] = ()
    aborted: tuple[AbortedTxn, ...] = ()


def fetch(log: PartitionLog, offset: int, *, read_committed: bool, max_bytes: int = NO_LIMIT) -> Fetch:
    """The reply to a consumer's fetch at `offset`: nothing at or above the LSO or the high watermark."""
    limit = log.last_stable_offset if read_committed else log.high_watermark
    for index, segment in enumerate(log.segments):
        batches = _readable(segment, offset, limit, max_bytes) if offset < limit else ()
        if batches:
            rest = log.segments[index:]
            aborted = _aborted(rest, offset, batches, log.log_end_offset) if read_committed else ()
            return Fetch(batches=batches, aborted=aborted)
    return Fetch()


def _readable(segment: LogSegment, offset: int, limit: int, max_bytes: int) -> tuple[ScannedBatch, ...]:
    """At least one batch if there is any, then as many as fit into `max_bytes`."""
    found = [b for b in segment.batches[segment.index_of(offset) :] if base_offset_of(b) < limit]
    return tuple(b for b in found if b is found[0] or b.end - found[0].position <= max_bytes)


def _aborted(
    segments: Sequence[LogSegment], offset: int, batches: tuple[ScannedBatch, ...], log_end_offset: int
) -> tuple[AbortedTxn, ...]:
    return aborted_for_fetch(
        (segment.aborted for segment in segments),
        fetch_offset=offset,
        upper_bound_offset=_upper_bound(segments, batches[-1].end, log_end_offset),
    )


def _upper_bound(segments: Sequence[LogSegment], end: int, log_end_offset: int) -> int:
    """The first indexed offset after the bytes that were read, else the end of the segment."""
    following = segments[1].base_offset if len(segments) > 1 else log_end_offset
    return next((entry.offset for entry in segments[0].offset_index if entry.position >= end), following)
