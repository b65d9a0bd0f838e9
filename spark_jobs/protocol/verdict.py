"""What can become of a batch: each verdict is defined here, once, for everything that shows it."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Self

from spark_jobs.protocol.errors import KafkaError


class VerdictGroup(StrEnum):
    """The terms of conservation: in = accepted + duplicate + rejected + corrupt + held."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    CORRUPT = "corrupt"
    HELD = "held"


class Tone(StrEnum):
    """How a page colours a label."""

    GOOD = "good"
    CALM = "calm"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """All that is said of a verdict, in tables, in answers, on pages and in the documentation.

    `reason` is the sentence of a row in `batches`; names in braces are values of the batch, as
    `admitting/reasons.py` lists them. It is empty for a batch that was simply taken. `waits_for` ends the
    sentence "it comes by itself once …"; a held batch is in quarantine if its verdict has one.
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
            reason="epoch {producer_epoch} is fenced by the producer's epoch {expected_epoch}",
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
                "another batch stands for offset {base_offset} "
                "than that of leader epoch {partition_leader_epoch}"
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
                "offset {base_offset} was in no copy when an earlier run went past it; "
                "a backfill of its date takes it"
            ),
        ),
    )


VERDICTS: tuple[Verdict, ...] = tuple(Verdict)
"""Position in this tuple is the code that compiled kernels use."""
