"""Header rows for tests: short to write, complete enough for the accept/reject rules."""

from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatchHeader
from spark_jobs.kafka.producers.verdict import BatchRow

T0 = 1_700_000_000_000


def header(
    *,
    pid: int = 1,
    epoch: int = 0,
    seq: int = 0,
    count: int = 1,
    records: int | None = None,
    txn: bool = False,
    control: bool = False,
    at: int = 0,
    ts: int = T0,
) -> RecordBatchHeader:
    """A v2 header of `count` offsets, of which `records` are present (all by default)."""
    return RecordBatchHeader(
        base_offset=at,
        batch_length=100,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG * txn | CONTROL_FLAG * control,
        last_offset_delta=count - 1,
        base_timestamp=ts,
        max_timestamp=ts,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=seq,
        record_count=count if records is None else records,
    )


def data(
    *,
    pid: int = 1,
    epoch: int = 0,
    seq: int = 0,
    count: int = 1,
    records: int | None = None,
    txn: bool = False,
    at: int = 0,
    ts: int = T0,
) -> BatchRow:
    """A data batch; `at` is its base offset, for logs that already have offsets."""
    return BatchRow(
        header=header(pid=pid, epoch=epoch, seq=seq, count=count, records=records, txn=txn, at=at, ts=ts)
    )


def commit(*, pid: int = 1, epoch: int = 0, coord: int = 0, at: int = 0, ts: int = T0) -> BatchRow:
    """A COMMIT marker from the coordinator of epoch `coord`."""
    return _marker(ControlType.COMMIT, pid=pid, epoch=epoch, coord=coord, at=at, ts=ts)


def abort(*, pid: int = 1, epoch: int = 0, coord: int = 0, at: int = 0, ts: int = T0) -> BatchRow:
    """An ABORT marker from the coordinator of epoch `coord`."""
    return _marker(ControlType.ABORT, pid=pid, epoch=epoch, coord=coord, at=at, ts=ts)


def empty_control(*, pid: int = 1, epoch: int = 0, at: int = 0) -> BatchRow:
    """A control batch whose marker the cleaner removed."""
    return BatchRow(header=header(pid=pid, epoch=epoch, seq=-1, records=0, txn=True, control=True, at=at))


def _marker(control_type: ControlType, *, pid: int, epoch: int, coord: int, at: int, ts: int) -> BatchRow:
    return BatchRow(
        header=header(pid=pid, epoch=epoch, seq=-1, txn=True, control=True, at=at, ts=ts),
        marker=EndTransactionMarker(control_type=control_type, coordinator_epoch=coord),
    )
