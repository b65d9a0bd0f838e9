"""`onceover.read_log`: the records of a Kafka log as a stream of Arrow record batches."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial

import pyarrow as pa

from spark_jobs.reading.in_order import in_advance, in_order
from spark_jobs.reading.partition_scan import is_plain, scan_partition
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions, plan_partition
from spark_jobs.reading.records import read_piece, record_schema
from spark_jobs.reading.stored_log import PartitionFiles, choose, find_partitions

OffsetRange = tuple[int | None, int | None]
TimestampRange = tuple[datetime | int | None, datetime | int | None]


def read_log(
    path_or_url: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    isolation: str = "read_committed",
    columns: Iterable[str] | None = None,
    offsets: OffsetRange | None = None,
    timestamps: TimestampRange | None = None,
    encryption_keys: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """The records of a Kafka log, as a consumer of this isolation level gets them.

    `path_or_url` is a segment, a partition's directory, a log directory or tiered storage, in a file system
    or in a bucket (`s3://bucket/prefix`). Partitions follow one another, the records of each in offset order.
    Few batches are in memory at a time, and all cores decode.

    `offsets` and `timestamps` are pairs (first, end), the end excluded, with None for no bound; timestamps
    are datetimes (UTC without a time zone) or milliseconds since 1970. Kafka's own topics are left out of a
    log directory unless `topics` names them. `encryption_keys` open encrypted uploads to tiered storage: for
    each key id `file:PATH` or `env:VARIABLE` of the private key.

    Raises `NotKafka` for a path without a log, `CorruptData` for damaged batches and `StorageError` for a
    store that fails. An unfinished batch at the end of a log is left out with the warning `TornTail`.
    Of tiered storage, the warning `TierEnds` says where the uploads end.
    """
    wanted = ReadOptions.of(isolation=isolation, columns=columns, offsets=offsets, timestamps=timestamps)
    chosen = choose(find_partitions(path_or_url, encryption_keys), topics, partitions)
    return pa.RecordBatchReader.from_batches(record_schema(wanted.columns), record_batches(chosen, wanted))


def record_batches(
    chosen: Iterable[PartitionFiles],
    wanted: ReadOptions,
    keep: Callable[[PlannedRead], bool] = lambda _: True,
) -> Iterator[pa.RecordBatch]:
    """The records of the partitions, one partition after the other; those of the pieces to `keep`."""
    pieces = filter(keep, plan_pieces(chosen, wanted))
    for batches in in_order(lambda piece: read_piece(piece, wanted), pieces):
        yield from batches


def plan_pieces(
    chosen: Iterable[PartitionFiles], wanted: ReadOptions, *, ahead: int = 1
) -> Iterator[PlannedRead]:
    """The pieces of all partitions; the next `ahead` partitions are scanned while pieces of one are read."""
    partitions = tuple(chosen)
    plainly = is_plain(partitions, records=True)
    scan = partial(scan_partition, plainly=plainly)
    for scanned in map(scan, partitions) if plainly else in_advance(scan, partitions, ahead=ahead):
        yield from plan_partition(scanned, wanted)
