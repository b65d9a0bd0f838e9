"""Compiles all kernels into the cache: `python -m spark_jobs.kernels.warm`, once per machine or image.

Otherwise the first task on a machine compiles, while the others wait or compile too.
"""

import numpy as np

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.producers.verdict import Rules
from spark_jobs.kernels.admission import batches_of, fold
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import compiled_here
from spark_jobs.kernels.copies import CopyColumns, CopyMerger, OrderColumns, OrderWatch, SegmentColumns
from spark_jobs.kernels.crc import checksum_castagnoli, checksum_ieee
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.ids import hash_ids
from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.partition_transactions import TransactionTable
from spark_jobs.kernels.producers import ProducerTable
from spark_jobs.kernels.record_rows import OffsetRanges, RecordColumns, count_within, look_at
from spark_jobs.kernels.scan import scan_headers, walk_boundaries


def warm() -> int:
    """Calls every kernel once; returns how many of them had to be compiled."""
    batch = build_batch(
        records=[Record(value=b"v")], base_timestamp=0, producer_id=1, base_sequence=0, codec=Codec.LZ4
    )
    headers = scan_headers(batch).columns
    walk_boundaries(batch, every=1)
    _warm_admission(headers)
    for decoded in decode_batches(batch, headers):
        _ = decoded.records
    _warm_record_rows()
    hash_ids(np.zeros(1, np.uint8), np.arange(2), bytes(16))
    checksum_castagnoli(batch)
    checksum_ieee(batch)
    return compiled_here()


def _warm_admission(headers: HeaderColumns) -> None:
    batches = batches_of(headers)
    producers = ProducerTable()
    TransactionTable().track(batches, fold(batches, producers, rules=Rules()))
    producers.canonical()
    CopyMerger().merge(CopyColumns._make(getattr(headers, name) for name in CopyColumns._fields))
    segment = SegmentColumns(
        object_order=np.zeros(1, np.int64),
        start=np.zeros(1, np.int64),
        end=np.ones(1, np.int64),
        is_dense=np.zeros(1, np.bool_),
    )
    rows = OrderColumns(
        object_order=np.zeros(1, np.int32),
        base_offset=headers.base_offset,
        last_offset_delta=headers.last_offset_delta,
    )
    OrderWatch(segment).is_in_order(rows, np.zeros(1, np.bool_))


def _warm_record_rows() -> None:
    """In the types in which Arrow has the columns of a topic's table."""
    short, long = read_only([0], np.int32), read_only([0], np.int64)
    look_at(RecordColumns(short, long, long, long, short, short), 0, earliest_ms=0, latest_ms=0)
    ranges = OffsetRanges._make(np.zeros((3, 1), np.int64))
    count_within(ranges, ranges)


if __name__ == "__main__":
    print(f"{warm()} kernels compiled")  # noqa: T201 - a command's answer
