"""Whole batches as bytes, for tests that need a log."""

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.log.segment import ScannedBatch, scan
from spark_jobs.kafka.producers.verdict import BatchRow
from tests.cases.batch_rows import T0


def data_batch(
    *,
    pid: int = 1,
    epoch: int = 0,
    seq: int = 0,
    count: int = 1,
    txn: bool = False,
    at: int = 0,
    ts: int = T0,
    key: bytes | None = b"k",
    value: bytes = b"v",
    codec: Codec = Codec.NONE,
    leader: int = 0,
) -> bytes:
    """A data batch of `count` records; `at` is its base offset: 0 as a client sends it."""
    return build_batch(
        records=[Record(offset_delta=n, key=key, value=value) for n in range(count)],
        base_timestamp=ts,
        base_offset=at,
        partition_leader_epoch=leader,
        codec=codec,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=seq,
        is_transactional=txn,
    )


def plain_batch(*, count: int = 1, at: int = 0, ts: int = T0) -> bytes:
    """A batch without a producer id."""
    return data_batch(pid=-1, epoch=-1, seq=-1, count=count, at=at, ts=ts)


def compacted_batch(
    *, deltas: tuple[int, ...] = (), last_delta: int, pid: int = 1, epoch: int = 0, seq: int = 0,
    txn: bool = False, at: int = 0, ts: int = T0,
) -> bytes:  # fmt: skip
    """A batch after the cleaner: the records at `deltas`, the header's offset range unchanged (facts §8)."""
    return build_batch(
        records=[Record(offset_delta=n, key=b"k", value=b"v") for n in deltas],
        base_timestamp=ts if deltas else -1,
        max_timestamp=ts,
        base_offset=at,
        last_offset_delta=last_delta,
        partition_leader_epoch=0,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=seq,
        is_transactional=txn,
    )


def commit_batch(*, pid: int = 1, epoch: int = 0, coord: int = 0, at: int = 0, ts: int = T0) -> bytes:
    return _marker(ControlType.COMMIT, pid=pid, epoch=epoch, coord=coord, at=at, ts=ts)


def abort_batch(*, pid: int = 1, epoch: int = 0, coord: int = 0, at: int = 0, ts: int = T0) -> bytes:
    return _marker(ControlType.ABORT, pid=pid, epoch=epoch, coord=coord, at=at, ts=ts)


def _marker(control_type: ControlType, *, pid: int, epoch: int, coord: int, at: int, ts: int) -> bytes:
    return write_marker(
        base_offset=at,
        partition_leader_epoch=0,
        timestamp=ts,
        producer_id=pid,
        producer_epoch=epoch,
        control_type=control_type,
        coordinator_epoch=coord,
    )


def scanned(records: bytes) -> tuple[bytes, tuple[ScannedBatch, ...]]:
    """The bytes and the batches in them."""
    return records, tuple(scan(records))


def batch_of(row: BatchRow) -> bytes:
    """A header row as a client or coordinator would send it."""
    header, marker = row.header, row.marker
    if marker is None:
        return data_batch(
            pid=header.producer_id,
            epoch=header.producer_epoch,
            seq=header.base_sequence,
            count=header.last_offset_delta + 1,
            txn=header.is_transactional,
            ts=header.max_timestamp,
        )
    return _marker(
        marker.control_type,
        pid=header.producer_id,
        epoch=header.producer_epoch,
        coord=marker.coordinator_epoch,
        at=0,
        ts=header.max_timestamp,
    )
