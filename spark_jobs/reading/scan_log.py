"""`onceover.scan_log`: what headers tell about a Kafka log, as Arrow tables."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.reading.contracts import HEADER_TABLES
from spark_jobs.reading.header_tables import TABLE_OF
from spark_jobs.reading.partition_scan import is_plain, scan_partition
from spark_jobs.reading.stored_log import PartitionFiles, choose, find_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScan:
    """The tables of a scanned log; partitions follow one another."""

    batches: pa.Table = field(repr=False)
    """Every batch that a broker serves, with the outcome of its transaction."""
    transactions: pa.Table = field(repr=False)
    """Every transaction of every partition: committed, aborted or open."""
    aborted: pa.Table = field(repr=False)
    """The aborted transactions, as a transaction index lists them."""
    producers: pa.Table = field(repr=False)
    """The producers at the end of every partition, as a broker remembers them."""
    remarks: pa.Table = field(repr=False)
    """What a broker would reject, misread or wait for."""


def scan_log(
    path: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    encryption_keys: Mapping[str, str] | None = None,
) -> LogScan:
    """The batches, transactions and producers of a Kafka log, without its records.

    `path`, `topics`, `partitions` and `encryption_keys` are those of `read_log`. Damage is no error
    here but a remark, and a batch with a wrong checksum has a row with `crc_ok` false. So are the end of
    tiered storage and gaps between its uploads.
    """
    return LogScan(
        **scan_tables(choose(find_partitions(path, encryption_keys), topics, partitions), HEADER_TABLES)
    )


def scan_tables(chosen: Iterable[PartitionFiles], names: Iterable[str]) -> dict[str, pa.Table]:
    """The tables of these names; one partition's headers are in memory at a time."""
    parts: dict[str, list[pa.Table]] = {name: [HEADER_TABLES[name].empty()] for name in names}
    partitions = tuple(chosen)
    plainly = is_plain(partitions, records=False)
    for files in partitions:
        scanned = scan_partition(files, plainly=plainly)
        for name, tables in parts.items():
            tables.append(TABLE_OF[name](scanned))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}
