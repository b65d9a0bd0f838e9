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
}

VERDICTS: tuple[Verdict, ...] = tuple(Verdict)
"""Position in this tuple is the code that compiled kernels use."""
