"""Reports on a segment, a partition's directory and a log directory, with a remark per problem found."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.inspect.listing import CODECS, last_sequences
from spark_jobs.inspect.partition import PartitionLog, Visibility, last_offsets
from spark_jobs.inspect.printers import Cell, Remark, Report, Table, error, note, plural, warning
from spark_jobs.inspect.segments import Segment
from spark_jobs.inspect.small_files import neighbour_remarks, neighbour_tables
from spark_jobs.kafka.errors import TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.log_files import CLEAN_SHUTDOWN_FILE
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, CONTROL_FLAG, NO_SEQUENCE
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.columns import UNREADABLE_CONTROL_TYPE, HeaderColumns

_SHOWN = 3
"""Examples of one kind that are named; the rest is counted."""
_SEGMENT_COLUMNS = (
    "segment", "bytes", "batches", "records", "markers", "first_offset", "last_offset", "max_timestamp",
    "codecs",
)  # fmt: skip
_PARTITION_COLUMNS = (
    "topic", "partition", "segments", "bytes", "batches", "log_start_offset", "last_stable_offset",
    "log_end_offset", "high_watermark", "open_transactions", "remarks", "topic_id",
)  # fmt: skip
_OPEN_COLUMNS = ("producer_id", "producer_epoch", "first_offset", "last_timestamp")


def segment_remarks(segment: Segment) -> Iterator[Remark]:
    """What is wrong with a file of batches."""
    yield from _tail(segment)
    yield from _checksums(segment)
    yield from _unreadable_markers(segment)


def _tail(segment: Segment) -> Iterator[Remark]:
    problem, where = segment.problem, f"at byte {segment.scanned_bytes:,}"
    left = plural(segment.size - segment.scanned_bytes, "trailing byte")
    if isinstance(problem, ZeroFilledTail):
        yield warning(f"zero-filled tail {where}: {left}, preallocated and never written")
    elif isinstance(problem, TornBatch):
        yield warning(f"torn tail {where}: {left} that a recovery would cut off ({problem})")
    elif problem is not None:
        yield error(f"no batch {where}, {left} not read: {problem}")


def _checksums(segment: Segment) -> Iterator[Remark]:
    wrong = np.flatnonzero(~segment.batches.crc_ok)
    if wrong.size:
        where = _examples(f"{segment.batches.position[row]:,}" for row in wrong[:_SHOWN])
        yield error(
            f"checksum mismatch in {plural(wrong.size, 'batch')}, at byte {where}{_more(wrong.size)}: "
            f"a recovery would keep the first {segment.valid_bytes:,} bytes"
        )


def _unreadable_markers(segment: Segment) -> Iterator[Remark]:
    rows = np.flatnonzero((segment.batches.control_type == UNREADABLE_CONTROL_TYPE) & segment.batches.crc_ok)
    if rows.size:
        yield error(f"{plural(rows.size, 'control batch')} without a readable control record")


def log_remarks(batches: HeaderColumns, seen: Visibility, *, has_sequences: bool) -> Iterator[Remark]:
    """Remarks on a whole log; group coordinators may restart their sequences (facts §8)."""
    yield from _open_transactions(seen)
    yield from order_remarks(batches, seen, has_sequences=has_sequences)


def order_remarks(batches: HeaderColumns, seen: Visibility, *, has_sequences: bool) -> Iterator[Remark]:
    """Remarks on the order of batches, in a whole log or in one segment."""
    yield from _idle_markers(batches, seen)
    yield from _backward_offsets(batches)
    if has_sequences:
        yield from _sequence_gaps(batches)


def _open_transactions(seen: Visibility) -> Iterator[Remark]:
    if seen.open_txns:
        oldest = seen.open_txns[0]
        yield warning(
            f"{plural(len(seen.open_txns), 'open transaction')}: the oldest, of producer "
            f"{oldest.producer_id} epoch {oldest.producer_epoch}, keeps the last stable offset "
            f"at {seen.last_stable_offset:,}"
        )


def _idle_markers(batches: HeaderColumns, seen: Visibility) -> Iterator[Remark]:
    rows = seen.idle_markers
    if rows.size:
        where = _examples(f"{batches.base_offset[row]:,}" for row in rows[:_SHOWN])
        yield note(
            f"{plural(rows.size, 'duplicate marker')}, at offset {where}{_more(rows.size)}: "
            "repeated by a coordinator, or the end of an empty transaction"
        )


def _backward_offsets(batches: HeaderColumns) -> Iterator[Remark]:
    rows = 1 + np.flatnonzero(batches.base_offset[1:] <= last_offsets(batches)[:-1])
    if rows.size:
        where = _examples(f"{batches.base_offset[row]:,}" for row in rows[:_SHOWN])
        yield error(
            f"offsets do not increase at {plural(rows.size, 'batch')}, at offset {where}{_more(rows.size)}"
        )


def _sequence_gaps(batches: HeaderColumns) -> Iterator[Remark]:
    gaps = sequence_gaps(batches)
    if gaps.size:
        named = (
            f"producer {batches.producer_id[row]} epoch {batches.producer_epoch[row]} at offset "
            f"{batches.base_offset[row]:,}, sequence {batches.base_sequence[row]}"
            for row in gaps[:_SHOWN]
        )
        yield warning(f"{plural(gaps.size, 'sequence gap')}: {_examples(named)}{_more(gaps.size)}")


def sequence_gaps(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """Rows that do not follow their producer's batch before, although no offset is missing in between.

    Where offsets are missing, compaction has removed batches, and their sequences with them.
    """
    sent = (
        ((batches.attributes & CONTROL_FLAG) == 0)
        & (batches.producer_id >= 0)
        & (batches.base_sequence != NO_SEQUENCE)
    )
    rows = np.flatnonzero(sent & batches.crc_ok)
    rows = rows[np.lexsort((rows, batches.producer_epoch[rows], batches.producer_id[rows]))]
    before, after = rows[:-1], rows[1:]
    same = (batches.producer_id[before] == batches.producer_id[after]) & (
        batches.producer_epoch[before] == batches.producer_epoch[after]
    )
    expected = (last_sequences(batches)[before] + 1) % (MAX_SEQUENCE + 1)
    missing = _missing_offsets(batches)
    complete = missing[before] == missing[after]
    return np.sort(after[same & complete & (batches.base_sequence[after] != expected)])


def _missing_offsets(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """How many offsets are missing before each batch, counted from the log's first."""
    steps = batches.base_offset[1:] - last_offsets(batches)[:-1] - 1
    return np.concatenate([np.zeros(min(batches.rows, 1), dtype=np.int64), np.cumsum(steps)])


def _examples(named: Iterable[str]) -> str:
    return "; ".join(named)


def _more(count: int) -> str:
    return f" and {count - _SHOWN:,} more" if count > _SHOWN else ""


def report_segment(
    segment: Segment, seen: Visibility, *, has_sequences: bool, problems: Iterable[Remark] = ()
) -> Report:
    """One segment alone: transactions may have begun before it and end behind it."""
    return Report(
        path=str(segment.path),
        kind="segment",
        facts=tuple(zip(_SEGMENT_COLUMNS[1:], _segment_row(segment)[1:], strict=True)),
        remarks=(
            *segment_remarks(segment),
            *_open_at_the_end(seen),
            *order_remarks(segment.batches, seen, has_sequences=has_sequences),
            *problems,
        ),
    )


def _open_at_the_end(seen: Visibility) -> Iterator[Remark]:
    if seen.open_txns:
        count = plural(len(seen.open_txns), "open transaction")
        yield note(f"{count} at the end of this segment: a marker may be in a later one")


def _segment_row(segment: Segment) -> tuple[Cell, ...]:
    batches = segment.batches
    is_control = (batches.attributes & CONTROL_FLAG) != 0
    markers = int(np.count_nonzero(is_control))
    records = int(np.maximum(batches.record_count[~is_control], 0).sum(dtype=np.int64))
    offsets = (int(batches.base_offset[0]), int(last_offsets(batches)[-1])) if batches.rows else (None, None)
    newest = int(batches.max_timestamp.max()) if batches.rows else None
    return (
        segment.path.name,
        segment.size,
        batches.rows,
        records,
        markers,
        *offsets,
        newest,
        _codecs(batches),
    )


def _codecs(batches: HeaderColumns) -> str:
    return ", ".join(CODECS[codec] for codec in np.unique(batches.attributes & CODEC_MASK))


def partition_remarks(log: PartitionLog) -> Iterator[Remark]:
    """Everything remarkable about a partition, the files beside its segments included."""
    for segment in log.segments:
        for remark in segment_remarks(segment):
            yield replace(remark, text=f"{segment.path.name}: {remark.text}")
    if log.overlapping:
        files = ", ".join(log.overlapping)
        yield warning(
            f"{plural(sum(log.overlapping.values()), 'batch')} in {files} repeat offsets of segments before "
            "them, as in a copy that was made during a compaction: a broker does not serve them"
        )
    yield from log_remarks(log.batches, log.visibility, has_sequences=not log.is_internal)
    yield from neighbour_remarks(log)


def report_partition(
    log: PartitionLog, tables: Iterable[Table] = (), remarks: Iterable[Remark] = ()
) -> Report:
    """A partition's directory; `tables` and `remarks` say what its records mean, where that is known."""
    seen = log.visibility
    segments = Table(name="segment", columns=_SEGMENT_COLUMNS, rows=tuple(map(_segment_row, log.segments)))
    return Report(
        path=str(log.path),
        kind="partition",
        facts=(
            ("topic", log.topic),
            ("partition", log.partition),
            ("log_start_offset", seen.log_start_offset),
            ("last_stable_offset", seen.last_stable_offset),
            ("log_end_offset", seen.log_end_offset),
            ("high_watermark", log.high_watermark),
            ("topic_id", log.topic_id),
        ),
        tables=(segments, *_open_table(seen), *neighbour_tables(log), *tables),
        remarks=(*partition_remarks(log), *remarks),
    )


def _open_table(seen: Visibility) -> tuple[Table, ...]:
    rows = tuple(
        (txn.producer_id, txn.producer_epoch, txn.first_offset, txn.last_timestamp) for txn in seen.open_txns
    )
    return (Table(name="open_transaction", columns=_OPEN_COLUMNS, rows=rows),) if rows else ()


def report_log_directory(path: Path, logs: Iterable[PartitionLog]) -> Report:
    """A log directory: a row per partition, the remarks of all; one partition at a time is held."""
    clean = (path / CLEAN_SHUTDOWN_FILE).exists()
    remarks = [note("the broker stopped cleanly" if clean else "no mark of a clean shutdown")]
    rows: list[tuple[Cell, ...]] = []
    ids: dict[str | None, set[str]] = {}
    for log in logs:
        found = [replace(remark, text=f"{log.name}: {remark.text}") for remark in partition_remarks(log)]
        rows.append(_partition_row(log, len(found)))
        remarks += found
        ids.setdefault(log.topic, set()).update(filter(None, [log.topic_id]))
    remarks += _several_ids(ids)
    return Report(
        path=str(path),
        kind="log_directory",
        facts=(("partitions", len(rows)),),
        tables=(Table(name="partition", columns=_PARTITION_COLUMNS, rows=tuple(rows)),),
        remarks=tuple(remarks),
    )


def _several_ids(ids: Mapping[str | None, set[str]]) -> Iterator[Remark]:
    """Topics whose partitions are of several logs."""
    for topic, found in ids.items():
        if len(found) > 1:
            yield warning(
                f"{topic}: its partitions have {len(found)} topic ids ({', '.join(sorted(found))}): the "
                "topic was deleted and created anew while this copy was made"
            )


def _partition_row(log: PartitionLog, remarks: int) -> tuple[Cell, ...]:
    seen = log.visibility
    return (
        log.topic,
        log.partition,
        len(log.segments),
        sum(segment.size for segment in log.segments),
        log.batches.rows,
        seen.log_start_offset,
        seen.last_stable_offset,
        seen.log_end_offset,
        log.high_watermark,
        len(seen.open_txns),
        remarks,
        log.topic_id,
    )
