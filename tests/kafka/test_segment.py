import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.kafka.errors import BadCrc, BadLength, BadMagic, CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.log.segment import ScannedBatch, read_batch_records, scan, scan_result
from tests.cases.formats import FIRST, GOOD, SECOND, SEGMENT_CASES, SegmentCase, patched
from tests.cases.golden import MESSAGE_V0, MESSAGE_V1

ALL_CASES = pytest.mark.parametrize("case", SEGMENT_CASES, ids=lambda case: case.title)


def batches_before_error(batches: Iterator[ScannedBatch]) -> tuple[int, type[CorruptData] | None]:
    count = 0
    try:
        for _ in batches:
            count += 1
    except CorruptData as error:
        return count, type(error)
    return count, None


@ALL_CASES
def test_recovery_keeps_what_a_broker_keeps(case: SegmentCase) -> None:
    found = scan_result(case.data, source="0.log")
    assert (len(found.batches), found.valid_bytes) == (case.batches, case.valid_bytes)
    assert type(found.problem) is (case.problem or type(None))


@ALL_CASES
def test_what_recovery_keeps_is_kept_by_a_second_recovery(case: SegmentCase) -> None:
    once = scan_result(case.data)
    again = scan_result(case.data[: once.valid_bytes])
    assert (again.batches, again.valid_bytes) == (once.batches, once.valid_bytes)


@ALL_CASES
def test_a_scan_raises_the_problem_after_the_batches_before_it(case: SegmentCase) -> None:
    count, error = batches_before_error(scan(case.data))
    assert error is case.problem
    assert count <= case.batches


def test_batches_come_with_their_positions() -> None:
    data = MESSAGE_V0 + MESSAGE_V1 + FIRST + SECOND
    batches = tuple(scan(data))
    assert [batch.position for batch in batches] == [0, 28, 64, 144]
    assert [batch.end for batch in batches] == [28, 64, 144, len(data)]
    assert [isinstance(batch.header, LegacyHeader) for batch in batches] == [True, True, False, False]


def test_a_reader_refuses_magic_3_but_the_file_reader_does_not() -> None:
    data = patched(FIRST, 16, b"\3") + SECOND
    assert batches_before_error(scan(data)) == (0, BadMagic)
    assert batches_before_error(scan(data, check_magic=False)) == (2, None)


def test_without_crc_check_only_the_frame_of_a_batch_matters() -> None:
    data = FIRST + patched(SECOND, 60, b"\x09") + FIRST
    assert batches_before_error(scan(data, check_crc=False)) == (3, None)


@pytest.mark.parametrize(
    ("tail", "error", "position"),
    [
        (SECOND[:40], TornBatch, 80),
        (SECOND[:-1] + b"\x01", BadCrc, 80),
        (patched(SECOND, 8, b"\0\0\0\1"), BadLength, 88),
        (patched(SECOND, 16, b"\x80"), BadMagic, 96),
        (bytes(100), ZeroFilledTail, 80),
    ],
)
def test_a_problem_names_file_and_byte(tail: bytes, error: type[CorruptData], position: int) -> None:
    problem = scan_result(FIRST + tail, source="00000000000000000000.log").problem
    assert isinstance(problem, error)
    assert (problem.source, problem.position) == ("00000000000000000000.log", position)
    assert str(position) in str(problem)
    assert problem.expected in str(problem)
    assert problem.found in str(problem)


def test_a_zero_filled_tail_is_a_bad_length_to_who_does_not_care() -> None:
    assert issubclass(ZeroFilledTail, BadLength)


def test_a_part_of_a_buffer_is_scanned_with_positions_of_the_whole() -> None:
    found = scan_result(b"junk" + GOOD + b"junk", start=4, end=4 + len(GOOD))
    assert ([batch.position for batch in found.batches], found.valid_bytes) == ([4, 84], 4 + len(GOOD))
    assert found.problem is None


def test_an_end_beyond_the_buffer_is_the_buffer_s_end() -> None:
    assert scan_result(GOOD, end=10**6).valid_bytes == len(GOOD)


def test_a_mapped_file_is_scanned_and_read_and_can_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(GOOD)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        batches = tuple(scan(mapped))
        offsets = [record.offset for batch in batches for record in read_batch_records(mapped, batch)]
    assert offsets == [0, 1, 10]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_gives_the_same_batches(kind: type[bytes | bytearray | memoryview]) -> None:
    assert tuple(scan(kind(GOOD))) == tuple(scan(GOOD))


def test_records_of_every_format_are_read_alike() -> None:
    data = MESSAGE_V0 + MESSAGE_V1 + FIRST
    values = [record.value for batch in scan(data) for record in read_batch_records(data, batch)]
    assert values == [b"v", b"v", b"v", None]
