"""Records of chosen batches as lines: through the plain reader, or in bulk through the kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_jobs.inspect.record_lines import json_line, json_prefix, text_line
from spark_jobs.inspect.segments import FAST_FROM, Segment
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.legacy import read_legacy_records
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kafka.formats.records import LogRecord, read_records

Rows = npt.NDArray[np.int64]
OnCorrupt = Callable[[CorruptData], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStyle:
    """How records become lines; `topic` and `partition` are None if the path does not contain them."""

    topic: str | None
    partition: int | None
    as_json: bool
    first_offset: int = 0
    """Records below it, deleted by their owner, are no longer shown."""

    @property
    def prefix(self) -> str:
        return json_prefix(self.topic, self.partition)


def record_lines(
    segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt, *, fast: bool | None = None
) -> Iterator[bytes | memoryview]:
    """Lines of all records of the batches at `rows`; a batch whose records are damaged goes to `on_corrupt`.

    A piece of lines is valid until the next one is requested.
    """
    if len(segment.data) >= FAST_FROM if fast is None else fast:
        from spark_jobs.inspect.fast_records import fast_lines  # noqa: PLC0415 — loads numba

        return fast_lines(segment, rows, style, on_corrupt)
    return plain_lines(segment, rows, style, on_corrupt)


def plain_lines(segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt) -> Iterator[bytes]:
    """One batch after the other, record by record."""
    for record in batch_records(segment, rows, on_corrupt):
        if record.offset >= style.first_offset:
            line = json_line(record, style.prefix) if style.as_json else text_line(record)
            yield line.encode()


def batch_records(segment: Segment, rows: Rows, on_corrupt: OnCorrupt) -> Iterator[LogRecord]:
    """The records of the batches at `rows` as values."""
    with memoryview(segment.data) as view:
        for row in rows.tolist():
            try:
                yield from _read_batch(segment, view, row)
            except CorruptData as error:
                on_corrupt(error)


def _read_batch(segment: Segment, view: memoryview, row: int) -> Iterator[LogRecord]:
    position, size = int(segment.batches.position[row]), int(segment.batches.size[row])
    read = read_records if segment.batches.magic[row] >= MAGIC_V2 else read_legacy_records
    return iter(read(view[position : position + size], source=segment.path.name, position=position))
