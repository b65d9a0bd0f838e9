"""What the rows of one partition show by themselves, counted part by part."""

from collections.abc import Mapping

from spark_jobs.auditing.inputs import Bounds
from spark_jobs.auditing.outcomes import Outcomes
from spark_jobs.auditing.sequence_spans import SequenceSpans, spans_of
from spark_jobs.kernels.record_rows import RecordColumns, count_within, look_at


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
        bounds = self._bounds
        seen = look_at(rows, self._last_offset, earliest_ms=bounds.earliest_ms, latest_ms=bounds.latest_ms)
        self._disordered += seen.disordered
        self._last_offset = seen.highest
        self._strange += seen.strange
        spans = spans_of(rows, seen)
        self._unwanted += count_within(spans.offsets, self._uncommitted)
        self._spans.add(spans)

    def facts(self) -> Mapping[str, int]:
        return {
            "rows": self._rows,
            "disordered_rows": self._disordered,
            "repeated_sequences": self._spans.repeated,
            "uncommitted_rows": self._unwanted,
            "strange_timestamps": self._strange,
        }
