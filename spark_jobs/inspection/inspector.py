"""`inspect` itself: recognises, reads and shows each path; errors are reported and the next path follows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from spark_jobs.inspection import small_files
from spark_jobs.inspection.batch_listing import all_fields, reading_fields
from spark_jobs.inspection.coordinator_views import coordinator_view
from spark_jobs.inspection.isolation import Isolation
from spark_jobs.inspection.log_reports import (
    partition_remarks,
    report_log_directory,
    report_partition,
    report_segment,
)
from spark_jobs.inspection.options import Options
from spark_jobs.inspection.partition import PartitionLog, log_files, read_partition
from spark_jobs.inspection.printers import Printer, printable
from spark_jobs.inspection.progress import progress
from spark_jobs.inspection.records import RecordStyle
from spark_jobs.inspection.report import Level, Remark, Report, plural
from spark_jobs.inspection.rows import as_json, as_text, format_rows, heading
from spark_jobs.inspection.segments import FAST_FROM, Segment, read_segment
from spark_jobs.inspection.shown_records import show_records, style_of
from spark_jobs.inspection.target import Kind, NotKafka, check_first_batch, is_partition, recognise
from spark_jobs.inspection.visibility import Outcome, decide
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.protocol.log_files import OWN_TOPICS, LogFileKind, parse_partition_dir

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


def inspect_paths(paths: Iterable[Path], options: Options, printer: Printer, emit: Emit) -> bool:
    """Show every path; `emit` hears what cannot be shown. Whether all could be, in full.

    Compiled or plain reading is chosen once, by the bytes of all segments: many small ones are much to read.
    """
    asked = tuple(paths)
    if options.fast is None:
        options = replace(options, fast=sum(map(_segment_bytes, asked)) >= FAST_FROM)
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
    """Show one path, or raise what it is not. Whether every record that was asked for could be read."""
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


def _check_any_batch(log: PartitionLog) -> None:
    """Refuse a directory that holds bytes and not one batch, for the reason that its file is refused for."""
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
        rows = np.flatnonzero((seen.outcome != Outcome.CONTROL) & segment.batches.crc_ok)
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
    """The report below a listing; where machines read records and nothing else, only its remarks, aside."""
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


def _read(directory: Path, options: Options) -> PartitionLog:
    size = sum(path.stat().st_size for file, path in log_files(directory) if file.kind is LogFileKind.LOG)
    with progress(directory.name, size, wanted=options.progress) as advance:
        return read_partition(directory, advance, fast=options.fast)


def _show_partition(log: PartitionLog, options: Options, printer: Printer, emit: Emit) -> bool:
    problems: list[Remark] = []
    if options.records:
        problems = show_records(log.visible_rows(options.isolation), style_of(log, options), options, printer)
    tables, remarks = coordinator_view(log)
    return _finish(report_partition(log, tables, (*remarks, *problems)), options, printer, emit)


def _partitions(directory: Path, options: Options) -> Iterator[PartitionLog]:
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
