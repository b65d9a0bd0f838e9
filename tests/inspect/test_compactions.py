"""Copies that were made during a compaction: `inspect` gives what a broker that starts from them serves."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record, read_records
from spark_jobs.sample.broker.log_loader import load
from tests.inspect.conftest import Inspect, objects

OFFSETS = range(461)
BASES = (0, 100, 250, 400)
"""Of the segments before compaction; the last one is active and stays."""
KEYS = 50


def _batch(offset: int, *deltas: int) -> bytes:
    """Of ten offsets, of which compaction has left those at `deltas`."""
    records = [
        Record(offset_delta=delta, key=b"k%d" % ((offset + delta) % KEYS), value=b"v%d" % (offset + delta))
        for delta in deltas
    ]
    last = min(9, OFFSETS[-1] - offset)
    return build_batch(records=records, base_offset=offset, base_timestamp=0, last_offset_delta=last)


def _segment(first: int, end: int, kept: Sequence[int] = OFFSETS) -> bytes:
    starts = range(first, end, 10)
    deltas = {at: [offset - at for offset in range(at, min(at + 10, end)) if offset in kept] for at in starts}
    return b"".join(_batch(at, *found) for at, found in deltas.items() if found)


ORIGINALS = {
    base: _segment(base, end) for base, end in zip(BASES, (*BASES[1:], OFFSETS[-1] + 1), strict=True)
}
CLEANED = _segment(0, 400, range(350, 400))
"""What is left of the three inactive segments: the newest record of each key."""
SURVIVORS = [*range(350, 400), *range(400, 461)]


def _write(directory: Path, files: dict[str, bytes]) -> Path:
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def _log(base: int, suffix: str = "") -> str:
    return f"{base:020d}.log{suffix}"


def _offsets(inspect: Inspect, path: Path) -> list[int]:
    return [row["offset"] for row in objects(inspect(path, "--records", "--json"))]


def _loaded(files: dict[str, bytes]) -> list[int]:
    """The offsets in the segments that a broker has after it has started."""
    log = load(files, clean=True, now=0)
    batches = [batch for segment in log.segments for batch in segment.batches]
    datas = [bytes(segment.data) for segment in log.segments for _ in segment.batches]
    return [
        record.offset
        for batch, data in zip(batches, datas, strict=True)
        for record in read_records(data[batch.position : batch.position + batch.header.size])
    ]


@pytest.mark.parametrize("left", [(), (100,), (250,), (100, 250)])
def test_segments_that_a_cleaned_one_replaces_are_not_read_again(
    inspect: Inspect, tmp_path: Path, left: tuple[int, ...]
) -> None:
    """The cleaned segment has its name already, and those that it was made of are not deleted yet."""
    files = {_log(0): CLEANED, _log(400): ORIGINALS[400]} | {_log(base): ORIGINALS[base] for base in left}
    directory = _write(tmp_path / "t-0", files)
    assert _offsets(inspect, directory) == SURVIVORS
    remarks = [row["text"] for row in objects(inspect(directory, "--json")) if row["kind"] == "remark"]
    assert any("repeat offsets of segments before them" in text for text in remarks) == bool(left)
    if left:
        assert all(_log(base) in "".join(remarks) for base in left)


def test_a_swapped_segment_takes_the_place_of_the_files_that_it_covers(
    inspect: Inspect, tmp_path: Path
) -> None:
    files = {_log(base): data for base, data in ORIGINALS.items()} | {_log(0, ".swap"): CLEANED}
    directory = _write(tmp_path / "t-0", files)
    assert _offsets(inspect, directory) == SURVIVORS == _loaded(files)
    shown = inspect(directory).stdout
    assert f"1 segment that a compaction was swapping in ({_log(0, '.swap')})" in shown


def test_a_swap_behind_an_unfinished_cleaning_does_not_count(inspect: Inspect, tmp_path: Path) -> None:
    files = {_log(base): data for base, data in ORIGINALS.items()}
    files |= {_log(0, ".cleaned"): CLEANED, _log(100, ".swap"): CLEANED, _log(250, ".deleted"): b"x"}
    directory = _write(tmp_path / "t-0", files)
    assert _offsets(inspect, directory) == list(OFFSETS) == _loaded(files)
    assert "1 file being deleted or added (.swap), not in the log" in inspect(directory).stdout


def test_a_damaged_base_offset_hides_no_later_segment(inspect: Inspect, tmp_path: Path) -> None:
    """No checksum covers it."""
    broken = bytearray(ORIGINALS[100])
    start = len(broken) - len(_batch(240, *range(10)))
    broken[start : start + 8] = (2**40).to_bytes(8, "big")
    files = {_log(base): data for base, data in ORIGINALS.items()} | {_log(100): bytes(broken)}
    found = _offsets(inspect, _write(tmp_path / "t-0", files))
    assert set(range(250, 461)) <= set(found)


def test_only_kafka_s_own_topics_are_left_out_of_a_log_directory_and_it_is_said(
    inspect: Inspect, tmp_path: Path
) -> None:
    for name in ("__confluent.support.metrics-0", "__consumer_offsets-0", "__consumer_offsets-1", "orders-0"):
        _write(tmp_path / name, {_log(0): _batch(0, 0, 1)})
    result = inspect(tmp_path, "--records", "--json")
    found = {row["topic"] for row in objects(result)}
    assert found == {"__confluent.support.metrics", "orders"}
    assert "__consumer_offsets is Kafka's own and left out (2 partitions)" in result.stderr
