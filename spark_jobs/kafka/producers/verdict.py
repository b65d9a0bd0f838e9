"""The verdicts on a batch, each defined once for everything that shows it, and decisions as values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
)
from spark_jobs.kafka.producers.producer_state import (
    NO_OFFSET,
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TransactionVersion,
    TxnMetadata,
    VerificationStateEntry,
)
from spark_jobs.kafka.producers.sequence import increment_sequence


class VerdictGroup(StrEnum):
    """The terms of conservation: in = accepted + duplicate + rejected + corrupt + held."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    CORRUPT = "corrupt"
    HELD = "held"


REFUSED_GROUPS = frozenset({VerdictGroup.REJECTED, VerdictGroup.CORRUPT})
"""Batches that are neither in the log, nor held for a later run."""


class Tone(StrEnum):
    """How a page colours a label."""

    GOOD = "good"
    CALM = "calm"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of a verdict for tables, replies, pages and documentation.

    `reason` is the sentence of a row in `batches`; names in braces are values of the batch, as
    `pipeline/admit/partition.py` lists them. It is empty for an accepted batch. `waits_for` ends the sentence
    "a later run takes it once …"; a held batch is in quarantine if its verdict has one.
    """

    group: VerdictGroup
    kafka_error: KafkaError
    symbol: str
    tone: Tone
    meaning: str
    reason: str = ""
    waits_for: str = ""


class Verdict(StrEnum):
    """Every batch ends with exactly one of these."""

    _value_: str
    group: VerdictGroup
    kafka_error: KafkaError
    symbol: str
    tone: Tone
    meaning: str
    reason: str
    waits_for: str

    def __new__(cls, name: str, definition: Definition) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        for field in fields(definition):
            setattr(member, field.name, getattr(definition, field.name))
        return member

    @property
    def is_refused(self) -> bool:
        return self.group in REFUSED_GROUPS

    ACCEPTED = (
        "accepted",
        Definition(
            group=VerdictGroup.ACCEPTED,
            kafka_error=KafkaError.NONE,
            symbol="✓",
            tone=Tone.GOOD,
            meaning="The batch is in the log; its transaction decides if its records are published.",
            waits_for="its transaction, or one before it, is decided",
        ),
    )
    DUPLICATE = (
        "duplicate",
        Definition(
            group=VerdictGroup.DUPLICATE,
            kafka_error=KafkaError.NONE,
            symbol="=",
            tone=Tone.CALM,
            meaning="A retry: first and last sequence equal one of the producer's last five batches.",
            reason=(
                "the batch at sequence {base_sequence} of epoch {producer_epoch} "
                "is at offset {offset} already"
            ),
        ),
    )
    STALE_DUPLICATE = (
        "stale_duplicate",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
            symbol="≠",
            tone=Tone.WARN,
            meaning="A retry that arrived after five newer batches of its producer.",
            reason=(
                "sequence {base_sequence} was taken, but not by one of the last five batches; "
                "{expected_sequence} is next"
            ),
        ),
    )
    OUT_OF_ORDER = (
        "out_of_order",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
            symbol="⇥",
            tone=Tone.WARN,
            meaning="The sequence does not continue the producer's last one.",
            reason="expected sequence {expected_sequence} of epoch {producer_epoch}, found {base_sequence}",
        ),
    )
    FENCED = (
        "fenced",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.INVALID_PRODUCER_EPOCH,
            symbol="⊘",
            tone=Tone.WARN,
            meaning="The producer epoch is older than the producer's newest one.",
            reason="producer epoch {producer_epoch} is fenced by epoch {expected_epoch}",
        ),
    )
    COORDINATOR_FENCED = (
        "coordinator_fenced",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.TRANSACTION_COORDINATOR_FENCED,
            symbol="⊗",
            tone=Tone.WARN,
            meaning="A marker of a coordinator epoch that is older than the newest one.",
            reason="a newer coordinator than that of epoch {coordinator_epoch} has written a marker already",
        ),
    )
    INVALID_TRANSACTION_STATE = (
        "invalid_transaction_state",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.INVALID_TXN_STATE,
            symbol="⌧",
            tone=Tone.WARN,
            meaning="The batch does not fit the state of its producer's transaction.",
            reason="the plain batch at sequence {base_sequence} is inside its producer's open transaction",
        ),
    )
    INVALID_RECORD = (
        "invalid_record",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.INVALID_RECORD,
            symbol="!",
            tone=Tone.BAD,
            meaning="The batch violates a rule for client batches.",
            reason="{broken_rule}",
        ),
    )
    CORRUPT = (
        "corrupt",
        Definition(
            group=VerdictGroup.CORRUPT,
            kafka_error=KafkaError.CORRUPT_MESSAGE,
            symbol="✕",
            tone=Tone.BAD,
            meaning="The bytes are not a batch: length, magic, checksum or compression is wrong.",
            reason="{problem}",
        ),
    )
    OVERLAP = (
        "overlap",
        Definition(
            group=VerdictGroup.DUPLICATE,
            kafka_error=KafkaError.NONE,
            symbol="≡",
            tone=Tone.CALM,
            meaning="The same offsets were taken from another copy or by an earlier run.",
            reason="another copy or an earlier run has brought the log at offset {base_offset} already",
        ),
    )
    DIVERGENT = (
        "divergent",
        Definition(
            group=VerdictGroup.REJECTED,
            kafka_error=KafkaError.NONE,
            symbol="⑂",
            tone=Tone.BAD,
            meaning="Other bytes at offsets for which a newer leader epoch has a batch.",
            reason=(
                "a newer leader epoch has another batch at offset {base_offset} "
                "than leader epoch {partition_leader_epoch}"
            ),
        ),
    )
    PARKED = (
        "parked",
        Definition(
            group=VerdictGroup.HELD,
            kafka_error=KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
            symbol="⏸",
            tone=Tone.CALM,
            meaning="Out of order in a capture with on_gap: park; held until the sequence gap fills.",
            reason=(
                "sequence {base_sequence} of epoch {producer_epoch} waits for sequence {expected_sequence}"
            ),
            waits_for="the gap before it fills",
        ),
    )
    BEHIND_GAP = (
        "behind_gap",
        Definition(
            group=VerdictGroup.HELD,
            kafka_error=KafkaError.NONE,
            symbol="⧗",
            tone=Tone.BAD,
            meaning="In a broker's log behind offsets that no copy has; held until a copy brings them.",
            reason="held: offsets {gap_first_offset} to {gap_last_offset} before it are in no copy so far",
        ),
    )
    LATE = (
        "late",
        Definition(
            group=VerdictGroup.HELD,
            kafka_error=KafkaError.NONE,
            symbol="↷",
            tone=Tone.WARN,
            meaning=(
                "Offsets that an earlier run published past while they were missing; a backfill takes it."
            ),
            reason=(
                "offset {base_offset} was in no copy when an earlier run published past it; "
                "a backfill of its date takes it"
            ),
        ),
    )


VERDICTS: tuple[Verdict, ...] = tuple(Verdict)
"""Position in this tuple is the code that compiled kernels use."""


NO_GUARD = 0
"""No verification guard; real guards are positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of the accept/reject rules.

    `transaction_version` is the client's level for data and the coordinator's for markers, unless
    `marker_version` is set for these: a capture does not show under which version its markers were sent.
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


LOG_REPLAY = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)
"""A stored log is read to its end: its leader has judged the batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A leader's verification of a transactional append with the coordinator (facts §2.5)."""

    enabled: bool = False
    entry: VerificationStateEntry | None = None
    guard: int = NO_GUARD

    @property
    def satisfied(self) -> bool:
        return not self.enabled or (self.entry is not None and self.entry.guard == self.guard)


NO_VERIFICATION = Verification()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision on one batch, and its reason; -1 means "none" in every number.

    `base_offset` and `last_offset` are the batch's offsets in the log: assigned if accepted, the original's
    if duplicate, none if rejected. `expected_epoch` is the producer's epoch before this batch and
    `expected_sequence` the next one (-1 where any is accepted); `found_*` is the batch's own.
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

    `stored` is the partition's entry before the append. `updated` is the entry after the batches so far, and
    holds only the new batches.
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
    """A header as input of `fold`; a control batch comes with its first record's content, if it has one."""

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
    """A batch accepted at `offset`, as part of the transaction that began there or before."""
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
    """A rejected batch, with what was expected instead."""
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


CONTROL_NAMES = {int(ControlType.ABORT): "abort marker", int(ControlType.COMMIT): "commit marker"}


def batch_name(row: Mapping[str, Any]) -> str:
    """A batch as sentences name it, from fields of its header: kind, producer, epoch and sequences."""
    producer = f"producer {row['producer_id']}, epoch {row['producer_epoch']}"
    if row["attributes"] & CONTROL_FLAG:
        return f"{CONTROL_NAMES.get(row['control_type'], 'control batch')} of {producer}"
    kind = "transactional batch" if row["attributes"] & TRANSACTIONAL_FLAG else "batch"
    if row["producer_id"] < 0:
        return f"{kind} without producer"
    return f"{kind} of {producer}, {_sequences(row['base_sequence'], row['last_offset_delta'])}"


def _sequences(first: int, last_offset_delta: int) -> str:
    if first == NO_SEQUENCE:
        return "no sequence"
    last = increment_sequence(first, last_offset_delta)
    return f"sequence {first}" if first == last else f"sequences {first} to {last}"
