"""`onceover.scan_log`: what headers show about a Kafka log, as Arrow tables."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import CODEC_MASK, CONTROL_FLAG, TRANSACTIONAL_FLAG
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStateEntry
from spark_jobs.kafka.producers.verdict import Rules
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.reading.batch_labels import (
    CODECS,
    CONTROL_TYPES,
    LOWEST_CONTROL_TYPE,
    TIMESTAMP_TYPES,
    last_sequences,
    timestamp_types,
)
from spark_jobs.reading.contracts import (
    HEADER_TABLES,
    LOG_ABORTED,
    LOG_BATCHES,
    LOG_PRODUCERS,
    LOG_REMARKS,
    LOG_TRANSACTIONS,
)
from spark_jobs.reading.partition_scan import ScannedPartition, is_plain, scan_partition
from spark_jobs.reading.plain import fold_plainly, is_fold_fast_for
from spark_jobs.reading.record_columns import Timestamps, repeated
from spark_jobs.reading.remarks import Remark, log_remarks, order_remarks, segment_remarks
from spark_jobs.reading.stored_log import PartitionFiles, choose, find_partitions
from spark_jobs.reading.uploads import tier_end, tier_errors
from spark_jobs.reading.visibility import BatchOutcome, last_offsets
from spark_jobs.tables.contract import Contract

_OUTCOMES = {BatchOutcome.COMMITTED: "committed", BatchOutcome.ABORTED: "aborted", BatchOutcome.OPEN: "open"}
_OUTCOME_NAMES = tuple(_OUTCOMES.get(outcome, "") for outcome in BatchOutcome)
Int64s = npt.NDArray[np.int64]


def _table(scanned: ScannedPartition, contract: Contract, columns: dict[str, Any], rows: int) -> pa.Table:
    """The columns with topic and partition before them, as the contract has them."""
    named = {
        "topic": repeated(scanned.files.topic, pa.string(), rows),
        "partition": repeated(scanned.files.partition, pa.int32(), rows),
        **columns,
    }
    return contract.cast(pa.table(named))


def _timestamps(milliseconds: npt.NDArray[np.int64]) -> "pa.Array[Any]":
    return Timestamps.of(milliseconds.astype(np.int64)).columns()["timestamp"]


def _labels(codes: npt.NDArray[Any], names: tuple[str, ...]) -> "pa.Array[Any]":
    """Names by code; the empty name is null."""
    texts = pa.array([name or None for name in names], pa.string())
    return texts.take(codes.astype(np.int32))


def batches_table(scanned: ScannedPartition) -> pa.Table:
    """A row per batch."""
    batches = scanned.batches
    segments = pa.array([segment.file.key.rpartition("/")[2] for segment in scanned.segments], pa.string())
    as_they_are = ("position", "size", "base_offset", "partition_leader_epoch", "producer_id", "crc_ok")
    columns = {
        "segment": segments.take(scanned.segment_of),
        "magic": batches.magic.astype(np.int32),
        "last_offset": last_offsets(batches),
        "record_count": pa.array(batches.record_count, mask=batches.record_count < 0),
        "codec": _labels(batches.attributes & CODEC_MASK, CODECS),
        "timestamp_type": _labels(timestamp_types(batches), TIMESTAMP_TYPES),
        "base_timestamp": _timestamps(batches.base_timestamp),
        "max_timestamp": _timestamps(batches.max_timestamp),
        "producer_epoch": batches.producer_epoch.astype(np.int32),
        "base_sequence": batches.base_sequence,
        "last_sequence": last_sequences(batches).astype(np.int32),
        "is_transactional": (batches.attributes & TRANSACTIONAL_FLAG) != 0,
        "is_control": (batches.attributes & CONTROL_FLAG) != 0,
        "control_type": _labels(batches.control_type - LOWEST_CONTROL_TYPE, CONTROL_TYPES),
        "coordinator_epoch": batches.coordinator_epoch,
        "outcome": _labels(scanned.visibility.outcome, _OUTCOME_NAMES),
        "crc": batches.crc.astype(np.int64),
        **{name: getattr(batches, name) for name in as_they_are},
    }
    return _table(scanned, LOG_BATCHES, columns, batches.rows)


def transactions_table(scanned: ScannedPartition) -> pa.Table:
    """A row per transaction with batches: those of one producer that the same marker ends."""
    batches, seen = scanned.batches, scanned.visibility
    rows = np.flatnonzero(np.isin(seen.outcome, list(_OUTCOMES)))
    rows = rows[np.lexsort((rows, seen.ended_by[rows], batches.producer_id[rows]))]
    first, last, count = _groups(batches.producer_id[rows], seen.ended_by[rows])
    records = np.concatenate(([0], np.cumsum(np.maximum(batches.record_count[rows], 0), dtype=np.int64)))
    begins, ends = rows[first], rows[last]
    order = np.argsort(begins, kind="stable")
    marker = seen.ended_by[begins]
    columns = {
        "producer_id": batches.producer_id[begins],
        "producer_epoch": batches.producer_epoch[ends].astype(np.int32),
        "outcome": _labels(seen.outcome[begins], _OUTCOME_NAMES),
        "first_offset": batches.base_offset[begins],
        "last_offset": last_offsets(batches)[ends],
        "marker_offset": pa.array(batches.base_offset[marker], mask=marker < 0)
        if batches.rows
        else pa.nulls(0, pa.int64()),
        "batches": count,
        "records": records[last + 1] - records[first],
        "last_timestamp": _timestamps(batches.max_timestamp[ends]),
    }
    return _table(scanned, LOG_TRANSACTIONS, columns, first.size).take(order)


def _groups(producers: Int64s, markers: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """(first, last, size) of the runs of equal pairs."""
    if not producers.size:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing
    changes = (np.diff(producers) != 0) | (np.diff(markers) != 0)
    first = np.concatenate(([0], np.flatnonzero(changes) + 1)).astype(np.int64)
    last = np.concatenate((first[1:], [producers.size])) - 1
    return first, last, last - first + 1


def aborted_table(scanned: ScannedPartition) -> pa.Table:
    """A row per aborted transaction."""
    found = scanned.visibility.aborted_txns
    columns = {
        "producer_id": found.producer_id,
        "first_offset": found.first_offset,
        "last_offset": found.last_offset,
    }
    return _table(scanned, LOG_ABORTED, columns, found.producer_id.size)


def producers_table(scanned: ScannedPartition) -> pa.Table:
    """A row per producer: the state that a broker has after it read the log."""
    batches = scanned.batches.pick(scanned.batches.crc_ok)
    columns = _fold(batches) if is_fold_fast_for(batches.rows) else _entry_columns(fold_plainly(batches))
    return _table(scanned, LOG_PRODUCERS, columns, len(columns["producer_id"]))


def _entry_columns(entries: Sequence[ProducerStateEntry]) -> dict[str, Any]:
    newest = [entry.batches[-1] if entry.batches else None for entry in entries]
    return {
        "producer_id": pa.array([entry.producer_id for entry in entries], pa.int64()),
        "producer_epoch": pa.array([entry.producer_epoch for entry in entries], pa.int32()),
        "last_sequence": pa.array([batch and batch.last_sequence for batch in newest], pa.int32()),
        "last_offset": pa.array([batch and batch.last_offset for batch in newest], pa.int64()),
        "last_timestamp": _timestamps(np.array([entry.last_timestamp for entry in entries], dtype=np.int64)),
        "coordinator_epoch": pa.array([entry.coordinator_epoch for entry in entries], pa.int32()),
        "txn_first_offset": pa.array([entry.current_txn_first_offset for entry in entries], pa.int64()),
    }


def _fold(batches: HeaderColumns) -> dict[str, Any]:
    from spark_jobs.kernels.admission import batches_of, fold  # noqa: PLC0415 — loads numba
    from spark_jobs.kernels.producers import ProducerTable  # noqa: PLC0415

    producers = ProducerTable()
    fold(batches_of(batches), producers, rules=Rules(origin=AppendOrigin.REPLICATION))
    rows = producers.canonical()
    newest = np.maximum(rows["batches"].astype(np.int64) - 1, 0)
    index, without = np.arange(rows.size), rows["batches"] == 0
    columns = {
        "producer_id": rows["producer_id"],
        "producer_epoch": rows["producer_epoch"].astype(np.int32),
        "last_sequence": pa.array(rows["last_sequence"][index, newest], mask=without),
        "last_offset": pa.array(rows["last_offset"][index, newest], mask=without),
        "last_timestamp": _timestamps(rows["last_timestamp"]),
        "coordinator_epoch": rows["coordinator_epoch"],
        "txn_first_offset": pa.array(rows["txn_first_offset"], mask=rows["txn_first_offset"] < 0),
    }
    return {name: _own(column) for name, column in columns.items()}


def _own(column: Any) -> Any:
    """A field of a structured array has a stride, which Arrow does not take."""
    return np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column


def remarks_table(scanned: ScannedPartition) -> pa.Table:
    """A row per remark, those on single files first."""
    found = list(_remarks(scanned))
    columns = {
        "level": pa.array([str(remark.level) for _, remark in found], pa.string()),
        "segment": pa.array([segment for segment, _ in found], pa.string()),
        "remark": pa.array([remark.text for _, remark in found], pa.string()),
    }
    return _table(scanned, LOG_REMARKS, columns, len(found))


def _remarks(scanned: ScannedPartition) -> Iterator[tuple[str | None, Remark]]:
    for segment in scanned.segments:
        for remark in segment_remarks(segment):
            yield segment.file.key.rpartition("/")[2], remark
    if scanned.files.is_tier:
        yield from ((None, remark) for remark in tier_errors(scanned))
        if not scanned.files.is_segment:
            yield None, tier_end(scanned)
    of_log = order_remarks if scanned.files.is_segment else log_remarks
    for remark in of_log(scanned.batches, scanned.visibility, has_sequences=not scanned.is_internal):
        yield None, remark


TABLE_OF: dict[str, Callable[[ScannedPartition], pa.Table]] = {
    LOG_BATCHES.name: batches_table,
    LOG_TRANSACTIONS.name: transactions_table,
    LOG_ABORTED.name: aborted_table,
    LOG_PRODUCERS.name: producers_table,
    LOG_REMARKS.name: remarks_table,
}
"""The functions that make the tables, by name."""


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
    path_or_url: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    encryption_keys: Mapping[str, str] | None = None,
) -> LogScan:
    """The batches, transactions and producers of a Kafka log, without its records.

    `path_or_url`, `topics`, `partitions` and `encryption_keys` are those of `read_log`. Damage is no error
    here but a remark, and a batch with a wrong checksum has a row with `crc_ok` false. So are the end of
    tiered storage and gaps between its uploads.
    """
    return LogScan(
        **scan_tables(
            choose(find_partitions(path_or_url, encryption_keys), topics, partitions), HEADER_TABLES
        )
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
