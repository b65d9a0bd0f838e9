"""What a real broker wrote: the index has every batch of it, however the segments are cut."""

from pathlib import Path

import pytest

from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.segment import scan_result
from tests.pipeline.index.reading import index_bytes

DATA = Path(__file__).parents[2] / "recordings" / "data"
FIELDS = [name for name in RecordBatchHeader.__dataclass_fields__ if name != "batch_length"]


def _segments(recording: str) -> list[Path]:
    return [path for path in sorted((DATA / recording).rglob("*.log")) if path.stat().st_size]


@pytest.mark.parametrize("recording", ["scenarios", "oracle_A", "oracle_D", "oracle_E", "workload_clean"])
def test_every_recorded_batch_is_a_row(recording: str) -> None:
    segments = _segments(recording)
    assert segments
    for path in segments:
        data = path.read_bytes()
        scanned = scan_result(data)

        _, rows = index_bytes(data)

        whole = rows.slice(0, len(scanned.batches))
        assert whole["position"].to_pylist() == [found.position for found in scanned.batches]
        assert whole.select(FIELDS).to_pylist() == [
            {name: getattr(found.header, name) for name in FIELDS} for found in scanned.batches
        ]
        markers = [
            read_marker(data[found.position : found.end]) if found.header.is_control else None
            for found in scanned.batches
        ]
        assert whole["control_type"].to_pylist() == [
            None if marker is None else marker.control_type for marker in markers
        ]


@pytest.mark.parametrize("recording", ["scenarios", "oracle_D", "workload_clean"])
def test_cuts_change_no_row_of_a_recorded_segment(recording: str) -> None:
    for path in _segments(recording):
        data = path.read_bytes()
        _, whole = index_bytes(data)

        _, rows = index_bytes(data, range(10_007, len(data), 10_007))

        assert rows.equals(whole)
