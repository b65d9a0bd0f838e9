"""A broker's partition in memory: appends as leader and as follower (facts §2.3).

Bytes in, bytes out; the clock is an argument. `log_loader` brings such a log back from its files.
"""

from spark_jobs.protocol.decision import NO_GUARD, Decision, Rules, Verification
from spark_jobs.protocol.errors import CorruptData, KafkaError
from spark_jobs.protocol.follower_fetch import follower_batches
from spark_jobs.protocol.leader_epochs import LeaderEpochs
from spark_jobs.protocol.legacy import LegacyHeader
from spark_jobs.protocol.log_append import AppendResult, failed
from spark_jobs.protocol.log_segment import MAX_RELATIVE_OFFSET, LogSegment, base_offset_of
from spark_jobs.protocol.log_validator import (
    Failure,
    check_produce_request,
    check_whole_batch,
    validate,
)
from spark_jobs.protocol.producer_replay import (
    ProducerUpdates,
    analyze,
    merge_updates,
)
from spark_jobs.protocol.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.protocol.record_batch import TimestampType
from spark_jobs.protocol.replica_log import CannotRoll, ReplicaLog
from spark_jobs.protocol.segment import ScannedBatch
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.protocol.verification import TransactionVerification


class PartitionLog(ReplicaLog):
    """A log that can be written; `leader_epoch` is what it stamps on batches as leader."""

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

        A marker needs an explicit `transaction_version`: its epoch is judged by it.
        """
        failure = check_produce_request(records) if origin is AppendOrigin.CLIENT else None
        if failure is not None:
            return failed(failure, self.log_start_offset)
        checked = check_whole_batch(records, self.config, origin)
        if isinstance(checked, Failure):
            return failed(checked, self.log_start_offset)
        validated = validate(
            records[: checked.size],
            config=self.config,
            origin=origin,
            offset=self.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
            now=now,
        )
        if isinstance(validated, Failure):
            return failed(validated, self.log_start_offset)
        if checked.is_control and transaction_version is None:
            raise ValueError("a leader appends a marker only with its transaction version")
        rules = Rules(origin=origin, transaction_version=transaction_version or TransactionVersion.TV0)
        batches = (ScannedBatch(position=0, header=validated.header),)
        return self._append(validated.batch, batches, rules, verification_guard, now)

    def append_as_follower(self, records: bytes, *, now: int) -> AppendResult:
        """The complete batches of one fetch as one append, offsets as the leader gave them (facts §2.3)."""
        try:
            batches = follower_batches(
                records, leader_epoch=self.leader_epoch, log_end_offset=self.log_end_offset
            )
        except CorruptData as error:
            failure = Failure(
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
            failure = Failure(
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
        """Whether the active segment's indexes, which hold 31 bits, cannot name the last offset."""
        relative = batches[-1].header.last_offset - self.segments[-1].base_offset
        return not 0 <= relative <= MAX_RELATIVE_OFFSET

    def _overflow(self, batches: tuple[ScannedBatch, ...]) -> str:
        """Only a follower can get there: one append that spans more than a segment can (facts §2.3)."""
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
        """What a broker does before it asks the coordinator; pass the guard on to `append` (facts §2.5)."""
        return self.manager.maybe_start_transaction_verification(
            producer_id=producer_id,
            sequence=sequence,
            producer_epoch=producer_epoch,
            supports_epoch_bump=supports_epoch_bump,
            now=now,
        )


def _unexpected(message: str) -> Failure:
    """What a broker has no error code for."""
    return Failure(kafka_error=KafkaError.UNKNOWN_SERVER_ERROR, message=message, knows_log_start=False)
