from pathlib import Path

import pytest

from spark_jobs.kafka.log.segment import next_offset, scan

DATA = Path(__file__).parents[1] / "recordings" / "data"
LOGS = sorted(DATA.glob("oracle_A/data/*/*.log"))


def end_of(data: bytes, position: int = 0, base_offset: int = 0) -> int:
    return next_offset(
        lambda start, length: data[start : start + length],
        len(data),
        position=position,
        base_offset=base_offset,
    )


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_end_is_that_of_a_scan_from_any_batch_on(path: Path) -> None:
    data = path.read_bytes()
    batches = list(scan(data))
    expected = batches[-1].header.last_offset + 1
    assert {end_of(data, batch.position) for batch in batches} == {expected}


def test_an_unfinished_batch_does_not_count() -> None:
    data = LOGS[0].read_bytes()
    batches = list(scan(data))
    assert end_of(data[:-1]) == batches[-2].header.last_offset + 1


@pytest.mark.parametrize("data", [b"", b"\0" * 500, b"\xff" * 500])
def test_what_is_no_batch_ends_where_it_begins(data: bytes) -> None:
    assert end_of(data, base_offset=42) == 42


def test_a_batch_beyond_the_first_window_is_read() -> None:
    data = LOGS[0].read_bytes() * 100
    read: list[int] = []

    def read_range(start: int, length: int) -> bytes:
        read.append(length)
        return data[start : start + length]

    assert next_offset(read_range, len(data), position=0, base_offset=0) == end_of(LOGS[0].read_bytes())
    assert len(read) > 1
