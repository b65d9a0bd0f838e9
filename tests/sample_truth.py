"""What the sample must lead to, found with the pure rules alone: a broker's answers, a consumer's records."""

from collections.abc import Iterator
from pathlib import Path

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader, check_batch
from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from spark_jobs.sample.story import RUN_DATES

Row = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key, value."""


def batches_in(data: bytes) -> Iterator[bytes]:
    """By length alone: a damaged batch has the right length, a torn one is what is left."""
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        yield data[:size]
        data = data[size:]


def replay(sample: Path) -> Iterator[tuple[str, str, PartitionLog, Verdict]]:
    """Every captured batch in turn, sent to a broker: run, partition, its log by then, the answer."""
    logs: dict[str, PartitionLog] = {}
    for file in sorted((sample / "gateway").rglob("*.batches")):
        run_date, name = file.parts[-3:-1]
        log = logs.setdefault(name, PartitionLog(_config()))
        for batch in batches_in(file.read_bytes()):
            yield run_date, name, log, _judge(log, batch)


def visible_rows(sample: Path, topic: str) -> set[Row]:
    """What a read_committed consumer of a captured topic gets; of orders with one key the first."""
    logs = {name: log for _, name, log, _ in replay(sample) if name.rpartition("-")[0] == topic}
    found = {row for name, log in logs.items() for row in _visible(int(name.rpartition("-")[2]), log)}
    return {row for row in found if topic != "orders" or row == _first_with_key(found, row)}


def _first_with_key(rows: set[Row], row: Row) -> Row:
    """Orders with the same key are in one partition, and the first one is published."""
    return min((each for each in rows if each[2] == row[2]), key=lambda each: each[1])


def shipped_rows(sample: Path) -> set[Row]:
    """All data of the last copy: `fulfilment` has committed whatever it sent, marker or not."""
    found = set()
    for file in (sample / "backup" / f"dt={RUN_DATES[-1]}").rglob("shipments-*/*.log"):
        for batch in batches_in(file.read_bytes()):
            if not check_batch(batch).is_control:
                found |= set(_rows(int(file.parent.name.rpartition("-")[2]), batch))
    return found


def _config() -> PartitionConfig:
    return PartitionConfig(transaction_partition_verification_enable=False)


def _judge(log: PartitionLog, batch: bytes) -> Verdict:
    try:
        header = check_batch(batch)
    except CorruptData:
        return Verdict.CORRUPT
    origin = AppendOrigin.COORDINATOR if header.is_control else AppendOrigin.CLIENT
    version, now = TransactionVersion.TV2, header.max_timestamp
    return log.append(batch, now=now, origin=origin, transaction_version=version).decision.verdict


def _visible(partition: int, log: PartitionLog) -> Iterator[Row]:
    log.update_high_watermark(log.log_end_offset)
    for segment in log.segments:
        for batch in batches_in(bytes(segment.data)):
            header = check_batch(batch)
            is_stable = header.base_offset < log.last_stable_offset
            if is_stable and not header.is_control and not _is_aborted(log, header):
                yield from _rows(partition, batch)


def _is_aborted(log: PartitionLog, header: RecordBatchHeader) -> bool:
    return header.is_transactional and any(
        txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
        for txn in log.aborted
    )


def _rows(partition: int, batch: bytes) -> Iterator[Row]:
    for record in read_records(batch):
        yield partition, record.offset, record.key, record.value
