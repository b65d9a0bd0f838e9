"""Objects as gateways and brokers write them, small and deterministic, and nasty ones."""

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record

NOON = 1_700_000_000_000


def batch(
    sequence: int,
    *,
    value: bytes = b"value",
    records: int = 1,
    producer_id: int = 7,
    codec: Codec = Codec.NONE,
) -> bytes:
    """An idempotent producer's batch as a client sends it."""
    return build_batch(
        records=[
            Record(offset_delta=delta, timestamp_delta=0, key=None, value=value) for delta in range(records)
        ],
        base_timestamp=NOON + sequence,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        codec=codec,
    )


def marker(offset: int, control_type: ControlType = ControlType.COMMIT) -> bytes:
    """A transaction's end as a coordinator writes it."""
    return write_marker(
        base_offset=offset,
        partition_leader_epoch=0,
        timestamp=NOON,
        producer_id=7,
        producer_epoch=0,
        control_type=control_type,
        coordinator_epoch=3,
    )


def plain_object(batches: int) -> bytes:
    return b"".join(batch(sequence, value=b"v" * (sequence % 40)) for sequence in range(batches))


def nested_object(batches: int) -> bytes:
    """Records whose values are whole Kafka batches, as in a topic that mirrors another one's segments."""
    return b"".join(batch(number, value=plain_object(1 + number % 6)) for number in range(batches))
