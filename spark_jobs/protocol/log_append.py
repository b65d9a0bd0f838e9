"""What an append yields: the broker's reply and the batch's verdict, as one value."""

from dataclasses import dataclass

from spark_jobs.protocol.decision import Decision
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.log_validator import Failure, RecordError
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import NO_TIMESTAMP
from spark_jobs.protocol.verdict import Verdict

CORRUPT_ERRORS = frozenset({KafkaError.CORRUPT_MESSAGE, KafkaError.UNKNOWN_SERVER_ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The fields of a produce reply, and the decision behind them; -1 where a reply carries nothing.

    `log_append_time` is -1 for what a CreateTime topic accepts, the original's timestamp for a duplicate.
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


def failed(failure: Failure, log_start_offset: int) -> AppendResult:
    """The reply to a batch that never reached its producer's state."""
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
