"""Records to the printer: chosen batches of segments, in parts, with their damage remarked upon."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from spark_jobs.inspection.decoded_records import DECODERS, decoded_lines
from spark_jobs.inspection.options import Options
from spark_jobs.inspection.partition import PartitionLog
from spark_jobs.inspection.printers import Printer
from spark_jobs.inspection.progress import progress
from spark_jobs.inspection.record_lines import TEXT_HEADING
from spark_jobs.inspection.records import Complain, RecordStyle, Rows, record_lines
from spark_jobs.inspection.report import Remark, error
from spark_jobs.inspection.segments import Segment
from spark_jobs.protocol.errors import CorruptData

_PART = 128 * 1024 * 1024
"""Bytes of batches between two steps of a progress bar."""


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


def style_of(log: PartitionLog, options: Options) -> RecordStyle:
    """How the records of a partition are written."""
    start = log.visibility.log_start_offset
    return RecordStyle(topic=log.topic, partition=log.partition, as_json=options.as_json, first_offset=start)


def _lines(
    segment: Segment, rows: Rows, style: RecordStyle, options: Options, complain: Complain
) -> Iterator[bytes | memoryview]:
    decode = DECODERS.get(style.topic)
    if decode is not None:
        return decoded_lines(segment, rows, style, complain, decode)
    return record_lines(segment, rows, style, complain, fast=options.fast)


def _bytes(segment: Segment, rows: Rows) -> int:
    return int(segment.batches.size[rows].sum())


def _parts(segment: Segment, rows: Rows) -> list[Rows]:
    """The rows in parts of about `_PART` bytes."""
    number = np.cumsum(segment.batches.size[rows]) // _PART
    return np.split(rows, np.flatnonzero(np.diff(number)) + 1) if rows.size else []
