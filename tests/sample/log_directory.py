"""The sample: orders with committed, aborted and open transactions, payments in all codecs, a torn tail."""

from pathlib import Path

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.checkpoints import OffsetCheckpointEntry, write_offsets
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.log_files import REPLICATION_OFFSET_CHECKPOINT
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Header, Record
from spark_jobs.kafka.formats.transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    group_by_topic,
    write_key,
    write_value,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.sample.partition_writer import MIDNIGHT, PartitionWriter

SHOP, ZOMBIE, BILLING = 4000, 4001, 5000


def write_sample(directory: Path) -> None:
    """Write the sample's files; what an earlier call wrote is overwritten."""
    orders = {0: _orders(), 1: _orders_left_open()}
    for partition, log in orders.items():
        log.write(directory / f"orders-{partition}")
    payments = _payments()
    payments.write(directory / "payments-0", tail=payments.batches[-1][:100])
    _coordinator().write(directory / "__transaction_state-0")
    ends = {TopicPartition("orders", partition): log.next_offset for partition, log in orders.items()}
    entries = [OffsetCheckpointEntry(topic=t, partition=p, offset=offset) for (t, p), offset in ends.items()]
    (directory / REPLICATION_OFFSET_CHECKPOINT).write_bytes(write_offsets(entries))


def _orders() -> PartitionWriter:
    log = PartitionWriter()
    log.send([b"order 1", b"order 2"], producer_id=SHOP, transactional=True)
    log.end(SHOP, ControlType.COMMIT)
    log.send([b"order 3, never placed"], producer_id=ZOMBIE, transactional=True)
    log.send([b"order 4"], producer_id=SHOP, transactional=True, headers=(Header(key="trace", value=b"a1"),))
    log.end(ZOMBIE, ControlType.ABORT)
    log.end(SHOP, ControlType.COMMIT)
    log.end(SHOP, ControlType.COMMIT)  # a coordinator that moved repeats its marker
    return log


def _orders_left_open() -> PartitionWriter:
    log = PartitionWriter()
    log.send([b"order 5"], producer_id=SHOP, transactional=True)
    log.end(SHOP, ControlType.COMMIT)
    log.send([b"order 6, undecided"], producer_id=ZOMBIE, transactional=True)
    log.send([b"order 7"])
    return log


def _payments() -> PartitionWriter:
    log = PartitionWriter()
    for codec in Codec:
        log.send(
            [f"paid with {codec.name.lower()}".encode() * 8, None, b""], producer_id=BILLING, codec=codec
        )
    return log


def _coordinator() -> PartitionWriter:
    log = PartitionWriter()
    for transactional_id, producer_id, state in (
        ("shop", SHOP, TransactionState.COMPLETE_COMMIT),
        ("zombie", ZOMBIE, TransactionState.ONGOING),
    ):
        is_open = state is TransactionState.ONGOING
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_timeout_ms=60_000,
            transaction_status=state,
            transaction_partitions=group_by_topic(
                frozenset({TopicPartition("orders", 1)} if is_open else ())
            ),
            transaction_last_update_timestamp_ms=MIDNIGHT,
            transaction_start_timestamp_ms=MIDNIGHT,
        )
        key = write_key(TransactionLogKey(transactional_id=transactional_id))
        record = Record(key=key, value=write_value(value))
        log.append(build_batch(records=[record], base_timestamp=MIDNIGHT, base_offset=log.next_offset), 1)
    return log
