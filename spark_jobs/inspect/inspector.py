"""Shows each path of `onceover inspect`: its report, batches or records. One error does not stop the rest."""

import json
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.inspect import small_files
from spark_jobs.inspect.log_reports import (
    coordinator_view,
    partition_remarks,
    report_log_directory,
    report_partition,
    report_segment,
)
from spark_jobs.inspect.path_kinds import Kind, check_first_batch, is_partition, recognise
from spark_jobs.inspect.printers import Printer, Report, printable, progress
from spark_jobs.inspect.record_lines import (
    TEXT_HEADING,
    OnCorrupt,
    RecordStyle,
    Rows,
    batch_records,
    iso_timestamp,
    json_line,
    record_lines,
)
from spark_jobs.inspect.row_lines import all_fields, as_json, as_text, format_rows, heading, reading_fields
from spark_jobs.inspect.segment_files import Segment, is_compiled_for, is_fast_for, read_segment
from spark_jobs.inspect.stored_partition import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    StoredPartition,
    log_files,
    read_partition,
)
from spark_jobs.kafka.errors import CorruptData, OnceoverError
from spark_jobs.kafka.formats import consumer_offsets
from spark_jobs.kafka.formats import transaction_state as coordinator_log
from spark_jobs.kafka.formats.log_files import OWN_TOPICS, LogFileKind, parse_partition_dir
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kernels.line_widths import OFFSET_WIDTH, TIMESTAMP_WIDTH
from spark_jobs.reading.errors import NotKafka
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.plain import FAST_FROM
from spark_jobs.reading.remarks import Level, Remark, error, plural
from spark_jobs.reading.visibility import BatchOutcome, decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How paths are shown."""

    records: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    as_json: bool = False
    progress: bool | None = None
    """None where the terminal decides."""
    fast: bool | None = None
    """Compiled or plain reading; None where the size decides."""


RecordDecoder = Callable[[LogRecord], dict[str, Any]]
_PART = 128 * 1024 * 1024
"""Bytes of batches between two steps of a progress bar."""
Emit = Callable[[str], None]
_SMALL_FILES: dict[Kind, Callable[[Path], Report]] = {
    Kind.SNAPSHOT: small_files.report_snapshot,
    Kind.TXN_INDEX: small_files.report_txn_index,
    Kind.OFFSET_INDEX: small_files.report_offset_index,
    Kind.TIME_INDEX: small_files.report_time_index,
    Kind.LEADER_EPOCHS: small_files.report_leader_epochs,
    Kind.OFFSETS: small_files.report_offset_checkpoint,
    Kind.METADATA: small_files.report_partition_metadata,
    Kind.META_PROPERTIES: small_files.report_meta_properties,
    Kind.QUORUM_STATE: small_files.report_json,
    Kind.CLEAN_SHUTDOWN: small_files.report_json,
}


def decoded_lines(
    segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt, decode: RecordDecoder
) -> Iterator[bytes]:
    """As `records.record_lines`, for Kafka's own topics: each line also has the decoded key and value."""
    for record in batch_records(segment, rows, on_corrupt):
        try:
            meaning = json.dumps(decode(record), default=_plain)
        except CorruptData as problem:
            on_corrupt(problem)
            continue
        yield (_json(record, style, meaning) if style.as_json else _text(record, meaning)).encode()


def _json(record: LogRecord, style: RecordStyle, meaning: str) -> str:
    line = json_line(record, style.prefix).removesuffix("}\n")
    return f'{line}, "decoded": {meaning}}}\n'


def _text(record: LogRecord, meaning: str) -> str:
    return (
        f"{record.offset:>{OFFSET_WIDTH}}  {iso_timestamp(record.timestamp):<{TIMESTAMP_WIDTH}}  {meaning}\n"
    )


def _plain(value: object) -> object:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _decode_transaction(record: LogRecord) -> dict[str, Any]:
    where = f"offset {record.offset}"
    key = coordinator_log.read_key(record.key or b"", source=where)
    value = None if record.value is None else coordinator_log.read_value(record.value, source=where)
    return {"key": _fields(key), "value": None if value is None else _fields(value)}


def _decode_offset(record: LogRecord) -> dict[str, Any]:
    where = f"offset {record.offset}"
    key = consumer_offsets.read_key(record.key or b"", source=where)
    is_commit = isinstance(key, consumer_offsets.OffsetCommitKey) and record.value is not None
    value = consumer_offsets.read_value(record.value or b"", source=where) if is_commit else None
    return {"key": _fields(key), "value": None if value is None else _fields(value)}


def _fields(value: Any) -> dict[str, Any]:
    """The fields under their names; a state under the name that Kafka's tools print."""
    return {
        name: field.label if isinstance(field, TransactionState) else field
        for name, field in asdict(value).items()
    }


DECODERS: dict[str | None, RecordDecoder] = {
    TRANSACTION_STATE: _decode_transaction,
    CONSUMER_OFFSETS: _decode_offset,
}


def show_records(
    chosen: Iterable[tuple[Segment, Rows]], style: RecordStyle, options: Options, printer: Printer
) -> list[Remark]:
    """Print the records of the chosen batches; returns remarks on batches that could not be read."""
    problems: list[CorruptData] = []
    printer.heading(TEXT_HEADING)
    for segment, rows in chosen:
        with progress(
            f"records of {segment.path.name}", _bytes(segment, rows), wanted=options.progress
        ) as advance:
            for part in _parts(segment, rows):
                first_offset = max(style.first_offset, segment.first_offset)
                of_segment = replace(style, first_offset=first_offset)
                for piece in _lines(segment, part, of_segment, options, problems.append):
                    printer.lines(piece)
                advance(_bytes(segment, part))
    return [error(f"records not shown: {problem}") for problem in problems]


def style_of(log: StoredPartition, options: Options) -> RecordStyle:
    """How the records of a partition are written."""
    start = log.visibility.log_start_offset
    return RecordStyle(topic=log.topic, partition=log.partition, as_json=options.as_json, first_offset=start)


def _lines(
    segment: Segment, rows: Rows, style: RecordStyle, options: Options, on_corrupt: OnCorrupt
) -> Iterator[bytes | memoryview]:
    decode = DECODERS.get(style.topic)
    if decode is not None:
        return decoded_lines(segment, rows, style, on_corrupt, decode)
    return record_lines(segment, rows, style, on_corrupt, fast=options.fast)


def _bytes(segment: Segment, rows: Rows) -> int:
    return int(segment.batches.size[rows].sum())


def _parts(segment: Segment, rows: Rows) -> list[Rows]:
    """The rows in parts of about `_PART` bytes."""
    number = np.cumsum(segment.batches.size[rows]) // _PART
    return np.split(rows, np.flatnonzero(np.diff(number)) + 1) if rows.size else []


def inspect_paths(paths: Iterable[Path], options: Options, printer: Printer, emit: Emit) -> bool:
    """Shows every path; `emit` gets messages about what cannot be shown. Returns whether all was shown.

    Compiled or plain reading is chosen once, by the bytes of all segments, since many small ones add up.
    """
    asked = tuple(paths)
    if options.fast is None:
        size = sum(map(_segment_bytes, asked))
        options = replace(options, fast=is_fast_for(size, records=options.records))
    if options.fast and sys.stderr.isatty() and not is_compiled_for(records=options.records):
        emit("compiling for this machine, once per version of Onceover: some seconds")
    shown = [_inspect_or_report(path, options, printer, emit) for path in asked]
    return all(shown)


def _segment_bytes(path: Path) -> int:
    """The size of a file, or of all segments in a directory and in the directories in it."""
    if not path.is_dir():
        return path.stat().st_size if path.is_file() else 0
    suffix = f".{LogFileKind.LOG}"
    logs = (*path.glob(f"*{suffix}"), *path.glob(f"*/*{suffix}"))
    return sum(log.stat().st_size for log in logs if log.is_file())


def _inspect_or_report(path: Path, options: Options, printer: Printer, emit: Emit) -> bool:
    try:
        return inspect_path(path, options, printer, emit)
    except OnceoverError as problem:
        emit(f"error: {printable(str(problem))}")
    except OSError as problem:
        emit(f"error: {printable(str(path))}: {problem.strerror}")
    return False


def inspect_path(path: Path, options: Options, printer: Printer, emit: Emit) -> bool:
    """Shows one path, or raises `NotKafka`. Returns whether all requested records could be read."""
    kind = recognise(path)
    if kind is Kind.SEGMENT:
        return _show_segment(path, options, printer, emit)
    if kind is Kind.PARTITION:
        log = _read(path, options)
        _check_any_batch(log)
        return _show_partition(log, options, printer, emit)
    if kind is Kind.LOG_DIRECTORY:
        return _show_log_directory(path, options, printer, emit)
    printer.report(_SMALL_FILES[kind](path))
    return True


def _check_any_batch(log: StoredPartition) -> None:
    """Refuses a directory with bytes but without any batch, with the error of its first file."""
    for segment in log.segments if not log.batches.rows else ():
        if segment.size:
            check_first_batch(segment.path, is_named=True)


def _show_segment(path: Path, options: Options, printer: Printer, emit: Emit) -> bool:
    if options.isolation is Isolation.READ_COMMITTED:
        raise NotKafka(
            f"{path}: read_committed needs the partition's directory: markers may be in other segments"
        )
    with progress(path.name, path.stat().st_size, wanted=options.progress) as advance:
        segment = read_segment(path, advance, fast=options.fast)
    seen, style = decide(segment.batches), _segment_style(path, options)
    problems = []
    if options.records:
        rows = np.flatnonzero((seen.outcome != BatchOutcome.CONTROL) & segment.batches.crc_ok)
        problems = show_records([(segment, rows)], style, options, printer)
    else:
        _show_batches(segment, options, printer)
    report = report_segment(segment, seen, has_sequences=style.topic not in OWN_TOPICS, problems=problems)
    return _finish(report, options, printer, emit)


def _segment_style(path: Path, options: Options) -> RecordStyle:
    """The partition of a segment, from its directory's name."""
    named = parse_partition_dir(path.resolve().parent.name)
    topic, partition = (named.topic, named.partition) if named else (None, None)
    return RecordStyle(topic=topic, partition=partition, as_json=options.as_json)


def _show_batches(segment: Segment, options: Options, printer: Printer) -> None:
    fast = segment.size >= FAST_FROM if options.fast is None else options.fast
    if options.as_json:
        columns = as_json(all_fields(segment.batches), kind="batch", path=str(segment.path))
    else:
        columns = as_text(reading_fields(segment.batches))
        printer.heading(heading(columns))
    for piece in format_rows(columns, "}\n" if options.as_json else "\n", fast=fast):
        printer.lines(piece)


def _finish(report: Report, options: Options, printer: Printer, emit: Emit) -> bool:
    """Prints the report below a listing; with JSON records only its remarks, through `emit`."""
    if options.records and options.as_json:
        _emit_remarks(report.path, report.remarks, emit)
    else:
        printer.report(report)
    return not options.records or _without_errors(report.remarks)


def _without_errors(remarks: Iterable[Remark]) -> bool:
    return all(remark.level is not Level.ERROR for remark in remarks)


def _emit_remarks(path: str, remarks: Iterable[Remark], emit: Emit) -> None:
    for remark in remarks:
        emit(f"{remark.level}: {printable(f'{path}: {remark.text}')}")


def _read(directory: Path, options: Options) -> StoredPartition:
    size = sum(path.stat().st_size for file, path in log_files(directory) if file.kind is LogFileKind.LOG)
    with progress(directory.name, size, wanted=options.progress) as advance:
        return read_partition(directory, advance, fast=options.fast)


def _show_partition(log: StoredPartition, options: Options, printer: Printer, emit: Emit) -> bool:
    problems: list[Remark] = []
    if options.records:
        problems = show_records(log.visible_rows(options.isolation), style_of(log, options), options, printer)
    tables, remarks = coordinator_view(log)
    return _finish(report_partition(log, tables, (*remarks, *problems)), options, printer, emit)


def _partitions(directory: Path, options: Options) -> Iterator[StoredPartition]:
    """The partitions of a log directory by topic and number."""
    found = [(parse_partition_dir(path.name), path) for path in directory.iterdir() if is_partition(path)]
    for _, path in sorted(((named.topic, named.partition), path) for named, path in found if named):
        yield _read(path, options)


def _show_log_directory(path: Path, options: Options, printer: Printer, emit: Emit) -> bool:
    if not options.records:
        printer.report(report_log_directory(path, _partitions(path, options)))
        return True
    complete, left_out = True, Counter[str]()
    for log in _partitions(path, options):
        if log.is_internal:
            left_out[str(log.topic)] += 1
            continue
        if not options.as_json:
            printer.heading(f"\n{printable(log.name)}")
        problems = show_records(log.visible_rows(options.isolation), style_of(log, options), options, printer)
        remarks = (*partition_remarks(log), *problems)
        _emit_remarks(str(log.path), remarks, emit)
        complete = complete and _without_errors(remarks)
    for topic, partitions in left_out.items():
        emit(
            f"note: {path}: {topic} is Kafka's own and left out ({plural(partitions, 'partition')}); "
            "inspect a partition's directory to see its records"
        )
    return complete
