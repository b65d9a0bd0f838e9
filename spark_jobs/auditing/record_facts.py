"""What the rows of one partition show by themselves, counted part by part."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from spark_jobs.auditing.batch_columns import Int64s
from spark_jobs.auditing.inputs import Bounds
from spark_jobs.auditing.outcomes import Outcomes
from spark_jobs.auditing.sequence_spans import SequenceSpans, spans_of
from spark_jobs.auditing.uncommitted_rows import count_uncommitted
from spark_jobs.protocol.record_batch import NO_TIMESTAMP


class RecordColumns(NamedTuple):
    """Rows of a topic's table, in its order."""

    partition: Int64s
    offset: Int64s
    timestamp: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    sequence: Int64s

    def part(self, start: int, stop: int) -> "RecordColumns":
        return RecordColumns._make(column[start:stop] for column in self)


class RecordFacts:
    """Reads along the rows of one partition; never holds more than its producers' sequences."""

    def __init__(self, outcomes: Outcomes, bounds: Bounds) -> None:
        self._uncommitted, self._bounds = outcomes.uncommitted(), bounds
        self._spans = SequenceSpans()
        self._last_offset = -1
        self._rows = self._disordered = self._strange = self._unwanted = 0

    def add(self, rows: RecordColumns) -> None:
        """The next rows of the partition."""
        if not rows.offset.size:
            return
        self._rows += rows.offset.size
        self._disordered += int(np.count_nonzero(np.diff(rows.offset, prepend=self._last_offset) <= 0))
        self._last_offset = max(self._last_offset, int(rows.offset.max()))
        self._strange += self._count_strange(rows.timestamp)
        spans = spans_of(rows.producer_id, rows.producer_epoch, rows.sequence, rows.offset)
        self._unwanted += count_uncommitted(spans, self._uncommitted)
        self._spans.add(spans)

    def facts(self) -> Mapping[str, int]:
        return {
            "rows": self._rows,
            "disordered_rows": self._disordered,
            "repeated_sequences": self._spans.repeated,
            "uncommitted_rows": self._unwanted,
            "strange_timestamps": self._strange,
        }

    def _count_strange(self, timestamp: Int64s) -> int:
        """Kafka allows a record to have no timestamp."""
        strange = (timestamp < self._bounds.earliest_ms) | (timestamp > self._bounds.latest_ms)
        return int(np.count_nonzero(strange & (timestamp != NO_TIMESTAMP)))
