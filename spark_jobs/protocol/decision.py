"""A judgement as a value: under which rules a batch was judged, what became of it, and what follows.

Nothing here decides; the rules that choose among these values are in `admission`.
"""

from dataclasses import dataclass

from spark_jobs.protocol.control_record import EndTransactionMarker
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.producer_state import (
    NO_OFFSET,
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TransactionVersion,
    TxnMetadata,
    VerificationStateEntry,
)
from spark_jobs.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatchHeader,
)
from spark_jobs.protocol.sequence import increment_sequence
from spark_jobs.protocol.verdict import Verdict

NO_GUARD = 0
"""A guard that vouches for nothing; real guards are positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Under which rules batches are judged.

    `transaction_version` is the client's level for data and the coordinator's for markers, unless these have
    a `marker_version` of their own: a capture does not tell under which version its markers were sent.
    `enforce_open_transaction` false accepts a non-transactional batch inside its producer's open transaction:
    a broker never does, but a log that already holds one can then still be read to its end.
    """

    origin: AppendOrigin = AppendOrigin.CLIENT
    transaction_version: TransactionVersion = TransactionVersion.TV0
    enforce_open_transaction: bool = True
    marker_version: TransactionVersion | None = None

    @property
    def version_of_markers(self) -> TransactionVersion:
        return self.transaction_version if self.marker_version is None else self.marker_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a leader knows about the coordinator's consent to a transactional append (facts §2.5)."""

    enabled: bool = False
    entry: VerificationStateEntry | None = None
    guard: int = NO_GUARD

    @property
    def satisfied(self) -> bool:
        return not self.enabled or (self.entry is not None and self.entry.guard == self.guard)


NO_VERIFICATION = Verification()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of one batch, and why; -1 stands for "none" in every number.

    `base_offset` and `last_offset` are the batch's place in the log: assigned if accepted, the original's if
    duplicate, none if refused. `expected_epoch` is the producer's epoch before this batch and
    `expected_sequence` the one that would have been next (-1 where any is welcome); `found_*` is what came.
    `log_append_time` is the remembered timestamp of a duplicate's original. `txn_first_offset` names the
    transaction that the batch belongs to, or that the marker closes. `message` is the broker's error text.
    """

    verdict: Verdict
    kafka_error: KafkaError = KafkaError.NONE
    base_offset: int = NO_OFFSET
    last_offset: int = NO_OFFSET
    expected_sequence: int = NO_SEQUENCE
    found_sequence: int = NO_SEQUENCE
    expected_epoch: int = NO_PRODUCER_EPOCH
    found_epoch: int = NO_PRODUCER_EPOCH
    log_append_time: int = NO_TIMESTAMP
    txn_first_offset: int = NO_OFFSET
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAppendInfo:
    """One producer within one append (facts §2.8).

    `stored` is what the partition remembers; `updated` is what the append has made of it so far and holds
    only the batches that are new.
    """

    stored: ProducerStateEntry
    updated: ProducerStateEntry

    def last_sequence_of(self, producer_epoch: int) -> int:
        """The newest sequence of `producer_epoch`, counting this append; -1 if there is none."""
        if self.updated.batches:
            return self.updated.last_sequence
        return self.stored.last_sequence if self.stored.producer_epoch == producer_epoch else NO_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The outcome of one batch: `info` is None unless the batch was accepted and has a producer."""

    decision: Decision
    info: ProducerAppendInfo | None = None
    started: TxnMetadata | None = None
    completed: CompletedTxn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A header as `fold` takes it; a control batch brings what its first record says, if it has one."""

    header: RecordBatchHeader
    marker: EndTransactionMarker | None = None


def accept_plain(header: RecordBatchHeader, offset: int) -> Decision:
    """A batch without a producer id is always accepted (facts §2.3)."""
    return Decision(
        verdict=Verdict.ACCEPTED,
        base_offset=offset,
        last_offset=offset + header.last_offset_delta,
        found_sequence=header.base_sequence,
        found_epoch=header.producer_epoch,
    )


def accept(
    info: ProducerAppendInfo, header: RecordBatchHeader, offset: int, txn_first_offset: int | None
) -> Decision:
    """A batch that goes into the log at `offset`, as part of the transaction that began there or before."""
    return Decision(
        verdict=Verdict.ACCEPTED,
        base_offset=offset,
        last_offset=offset + header.last_offset_delta,
        expected_sequence=_expected_sequence(info, header),
        found_sequence=header.base_sequence,
        expected_epoch=info.updated.producer_epoch,
        found_epoch=header.producer_epoch,
        txn_first_offset=NO_OFFSET if txn_first_offset is None else txn_first_offset,
    )


def duplicate_of(info: ProducerAppendInfo, header: RecordBatchHeader, original: BatchMetadata) -> Decision:
    """A batch that is already in the log, answered with the original's offsets."""
    return Decision(
        verdict=Verdict.DUPLICATE,
        base_offset=original.first_offset,
        last_offset=original.last_offset,
        expected_sequence=_expected_sequence(info, header),
        found_sequence=header.base_sequence,
        expected_epoch=info.updated.producer_epoch,
        found_epoch=header.producer_epoch,
        log_append_time=original.timestamp,
    )


def refuse(
    info: ProducerAppendInfo,
    header: RecordBatchHeader,
    verdict: Verdict,
    expected: int | None = None,
    *,
    message: str | None = None,
) -> Admission:
    """A refused batch, with what was expected instead."""
    return Admission(
        decision=Decision(
            verdict=verdict,
            kafka_error=verdict.kafka_error,
            expected_sequence=_expected_sequence(info, header) if expected is None else expected,
            found_sequence=header.base_sequence,
            expected_epoch=info.updated.producer_epoch,
            found_epoch=header.producer_epoch,
            message=message,
        )
    )


def _expected_sequence(info: ProducerAppendInfo, header: RecordBatchHeader) -> int:
    """The sequence that would be next; -1 for markers, unknown producers and older epochs."""
    current = info.updated.producer_epoch
    if header.is_control or current == NO_PRODUCER_EPOCH or header.producer_epoch < current:
        return NO_SEQUENCE
    if header.producer_epoch > current:
        return 0
    return increment_sequence(info.last_sequence_of(current), 1)
