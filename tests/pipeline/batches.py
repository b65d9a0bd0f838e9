"""Whole batches, short to write, for tests that run the steps."""

from dataclasses import replace

from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import assign_offset
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.producers.verdict import BatchRow

NOON = 1_714_564_800_000
"""2024-05-01T12:00Z, the day of the first run."""


def batch(
    seq: int = 0,
    *,
    pid: int = 1,
    epoch: int = 0,
    count: int = 1,
    txn: bool = False,
    at: int = 0,
    leader_epoch: int = -1,
    timestamp: int = NOON,
    value: bytes = b"v",
) -> bytes:
    """A data batch; `at` and `leader_epoch` for logs that already have them."""
    built = build_batch(
        records=[Record(offset_delta=number, value=value) for number in range(count)],
        base_timestamp=timestamp,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=seq,
        is_transactional=txn,
    )
    return assign_offset(built, base_offset=at, partition_leader_epoch=leader_epoch)


def marker(
    control_type: ControlType = ControlType.COMMIT,
    *,
    pid: int = 1,
    epoch: int = 0,
    at: int = 0,
    leader_epoch: int = -1,
    coordinator_epoch: int = 0,
) -> bytes:
    """A marker."""
    return write_marker(
        base_offset=at,
        partition_leader_epoch=leader_epoch,
        timestamp=NOON,
        producer_id=pid,
        producer_epoch=epoch,
        control_type=control_type,
        coordinator_epoch=coordinator_epoch,
    )


def batch_of(row: BatchRow) -> bytes:
    """The bytes of a case's row: its header over a record's payload, also if the header claims another."""
    header = row.header
    if row.marker is not None:
        return marker(
            row.marker.control_type,
            pid=header.producer_id,
            epoch=header.producer_epoch,
            at=header.base_offset,
            coordinator_epoch=row.marker.coordinator_epoch,
        )
    return seal(replace(header, magic=2), b"\x0c\x00\x00\x00\x01\x00\x00")
