"""What can become of a batch: the column value, the dashboard's label and Kafka's error in one place."""

from enum import StrEnum

from spark_jobs.protocol.errors import KafkaError


class Verdict(StrEnum):
    """Every batch ends with exactly one of these."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    STALE_DUPLICATE = "stale_duplicate"
    OUT_OF_ORDER = "out_of_order"
    FENCED = "fenced"
    COORDINATOR_FENCED = "coordinator_fenced"
    INVALID_TRANSACTION_STATE = "invalid_transaction_state"
    INVALID_RECORD = "invalid_record"
    CORRUPT = "corrupt"
    OVERLAP = "overlap"
    DIVERGENT = "divergent"
    PARKED = "parked"
    BEHIND_GAP = "behind_gap"
    LATE = "late"


class VerdictGroup(StrEnum):
    """The terms of conservation: in = accepted + duplicate + rejected + corrupt + held."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    CORRUPT = "corrupt"
    HELD = "held"


GROUP_OF: dict[Verdict, VerdictGroup] = {
    Verdict.ACCEPTED: VerdictGroup.ACCEPTED,
    Verdict.DUPLICATE: VerdictGroup.DUPLICATE,
    Verdict.OVERLAP: VerdictGroup.DUPLICATE,
    Verdict.STALE_DUPLICATE: VerdictGroup.REJECTED,
    Verdict.OUT_OF_ORDER: VerdictGroup.REJECTED,
    Verdict.FENCED: VerdictGroup.REJECTED,
    Verdict.COORDINATOR_FENCED: VerdictGroup.REJECTED,
    Verdict.INVALID_TRANSACTION_STATE: VerdictGroup.REJECTED,
    Verdict.INVALID_RECORD: VerdictGroup.REJECTED,
    Verdict.DIVERGENT: VerdictGroup.REJECTED,
    Verdict.CORRUPT: VerdictGroup.CORRUPT,
    Verdict.PARKED: VerdictGroup.HELD,
    Verdict.BEHIND_GAP: VerdictGroup.HELD,
    Verdict.LATE: VerdictGroup.HELD,
}

KAFKA_ERROR_OF: dict[Verdict, KafkaError] = {
    Verdict.ACCEPTED: KafkaError.NONE,
    Verdict.DUPLICATE: KafkaError.NONE,
    Verdict.OVERLAP: KafkaError.NONE,
    Verdict.STALE_DUPLICATE: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Verdict.OUT_OF_ORDER: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Verdict.FENCED: KafkaError.INVALID_PRODUCER_EPOCH,
    Verdict.COORDINATOR_FENCED: KafkaError.TRANSACTION_COORDINATOR_FENCED,
    Verdict.INVALID_TRANSACTION_STATE: KafkaError.INVALID_TXN_STATE,
    Verdict.INVALID_RECORD: KafkaError.INVALID_RECORD,
    Verdict.DIVERGENT: KafkaError.NONE,
    Verdict.CORRUPT: KafkaError.CORRUPT_MESSAGE,
    Verdict.PARKED: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Verdict.BEHIND_GAP: KafkaError.NONE,
    Verdict.LATE: KafkaError.NONE,
}

MEANING_OF: dict[Verdict, str] = {
    Verdict.ACCEPTED: "The batch is in the log; its transaction decides if its records are published.",
    Verdict.DUPLICATE: "A retry: first and last sequence equal one of the producer's last five batches.",
    Verdict.OVERLAP: "The same offsets were taken from another copy or by an earlier run.",
    Verdict.STALE_DUPLICATE: "A retry that arrived after five newer batches of its producer.",
    Verdict.OUT_OF_ORDER: "The sequence does not continue the producer's last one.",
    Verdict.FENCED: "The producer epoch is older than the producer's newest one.",
    Verdict.COORDINATOR_FENCED: "A marker of a coordinator epoch that is older than the newest one.",
    Verdict.INVALID_TRANSACTION_STATE: "The batch does not fit the state of its producer's transaction.",
    Verdict.INVALID_RECORD: "The batch breaks a rule for what clients may send.",
    Verdict.DIVERGENT: "Other bytes at offsets for which a newer leader epoch has a batch.",
    Verdict.CORRUPT: "The bytes are not a batch: length, magic, checksum or compression is wrong.",
    Verdict.PARKED: "Out of order in a capture with on_gap: park; held until the sequence gap fills.",
    Verdict.BEHIND_GAP: "In a broker's log behind offsets that no copy has; held until a copy brings them.",
    Verdict.LATE: "Offsets that an earlier run published past while they were missing; a backfill takes it.",
}
"""What happened, for people; the reason of a row in `batches` has the numbers."""

VERDICTS: tuple[Verdict, ...] = tuple(Verdict)
"""Position in this tuple is the code that compiled kernels use."""
