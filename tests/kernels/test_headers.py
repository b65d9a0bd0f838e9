from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import BadCrc, BadMagic
from spark_jobs.kernels.columns import concatenate
from spark_jobs.kernels.scan import (
    FIRST_CAPACITY,
    SMALLEST_ENTRY,
    StopReason,
    scan_chunk,
    scan_headers,
    walk_boundaries,
)
from tests.cases.formats import SEGMENT_CASES, SegmentCase
from tests.cases.golden import COMMIT_MARKER, MESSAGE_V0, MESSAGE_V1, TRANSACTIONAL_BATCH
from tests.kernels.strategies import LOGS, damaged_logs
from tests.kernels.twins import kernel_scan, pure_scan, rows_of

GOLDEN = TRANSACTIONAL_BATCH + COMMIT_MARKER + MESSAGE_V1 + MESSAGE_V0


def test_golden_vectors_of_every_format_become_rows() -> None:
    columns = scan_headers(GOLDEN).columns
    assert columns.position.tolist() == [0, 80, 158, 194]
    assert columns.magic.tolist() == [2, 2, 1, 0]
    assert columns.crc_ok.tolist() == [True] * 4
    assert columns.base_offset.tolist() == [0, 10, 5, 5]
    assert columns.producer_id.tolist() == [4000, 4000, -1, -1]
    assert columns.producer_epoch.tolist() == [6, 7, -1, -1]
    assert columns.control_type.tolist() == [-2, 1, -2, -2]
    assert columns.coordinator_epoch.tolist() == [-1, 5, -1, -1]


@given(damaged_logs(), st.booleans(), st.booleans())
def test_a_scan_finds_what_the_pure_scan_finds(data: bytes, check_crc: bool, check_magic: bool) -> None:
    found = scan_headers(data, check_crc=check_crc, check_magic=check_magic)
    assert kernel_scan(found) == pure_scan(data, check_crc=check_crc, check_magic=check_magic)


@given(LOGS, st.data())
def test_a_part_of_a_buffer_is_scanned_as_if_it_were_alone(data: bytes, draw: st.DataObject) -> None:
    starts = [0, *scan_headers(data).columns.position.tolist()]
    start, end = draw.draw(st.sampled_from(starts)), draw.draw(st.integers(0, len(data)))
    found = scan_headers(data, start=start, end=end)
    assert kernel_scan(found) == pure_scan(data, start=start, end=end)


@given(LOGS, st.integers(1, 3))
def test_chunks_of_any_capacity_join_to_the_whole(data: bytes, capacity: int) -> None:
    parts = [scan_chunk(data, capacity=capacity)]
    while parts[-1].stop.reason is StopReason.FULL:
        parts.append(scan_chunk(data, start=parts[-1].stop.position, capacity=capacity))
    assert all(part.columns.rows == capacity for part in parts[:-1])
    joined = rows_of(concatenate([part.columns for part in parts]))
    assert joined == rows_of(scan_headers(data).columns)


def test_more_batches_than_one_chunk_holds_are_all_found() -> None:
    columns = scan_headers(COMMIT_MARKER * (FIRST_CAPACITY * 2 + 1)).columns
    assert columns.rows == FIRST_CAPACITY * 2 + 1
    assert columns.position.tolist() == list(range(0, 78 * columns.rows, 78))


def test_there_is_room_for_no_more_headers_than_fit_into_the_bytes() -> None:
    """Rows of small objects are collected, each with all the room that it was given."""
    found = scan_chunk(COMMIT_MARKER, capacity=FIRST_CAPACITY)
    room = found.columns.position.base
    assert room is not None
    assert room.size <= len(COMMIT_MARKER) // SMALLEST_ENTRY + 1


def test_the_shortest_messages_fit_into_the_room() -> None:
    shortest = bytes(8) + (14).to_bytes(4) + bytes(6) + b"\xff" * 8
    found = scan_chunk(shortest * 100, capacity=FIRST_CAPACITY, check_crc=False)
    assert len(shortest) == SMALLEST_ENTRY
    assert (found.columns.rows, found.stop.reason) == (100, StopReason.END)


def test_a_wrong_checksum_ends_a_recovery_and_is_only_marked_in_a_report() -> None:
    damaged = TRANSACTIONAL_BATCH[:-1] + b"\x7f"
    data = COMMIT_MARKER + damaged + MESSAGE_V0[:-1] + b"\x7f" + COMMIT_MARKER
    recovery, report = scan_headers(data), scan_headers(data, stop_at_bad_crc=False)
    assert kernel_scan(recovery).error is BadCrc
    assert (recovery.stop.position, recovery.columns.rows) == (78, 1)
    assert report.stop.reason is StopReason.END
    assert report.columns.crc_ok.tolist() == [True, False, False, True]


@given(damaged_logs())
def test_a_report_marks_exactly_the_batches_that_a_recovery_would_refuse(data: bytes) -> None:
    report = scan_headers(data, stop_at_bad_crc=False).columns
    for position, size, crc_ok in zip(report.position, report.size, report.crc_ok, strict=True):
        alone = pure_scan(data, start=int(position), end=int(position + size))
        assert crc_ok == (alone.error is not BadCrc)


@given(damaged_logs(), st.integers(0, 300))
def test_a_walk_splits_a_log_into_ranges_of_whole_batches(data: bytes, every: int) -> None:
    walk, whole = walk_boundaries(data, every=every), scan_headers(data, check_crc=False)
    assert walk.stop == whole.stop
    edges = [*walk.positions.tolist(), walk.stop.position]
    ranges = [scan_headers(data, start=a, end=b, check_crc=False) for a, b in pairwise(edges)]
    assert all(part.stop.reason is StopReason.END for part in ranges)
    assert [row for part in ranges for row in rows_of(part.columns)] == list(rows_of(whole.columns))
    assert all(b - a >= every for a, b in pairwise(edges[:-1]))


def test_scanning_leaves_the_buffer_writable_and_unchanged() -> None:
    data = bytearray(COMMIT_MARKER)
    scan_headers(data)
    assert data == COMMIT_MARKER
    data[0] = 1


@pytest.mark.parametrize("case", SEGMENT_CASES, ids=lambda case: case.title)
def test_recovery_keeps_what_a_broker_keeps(case: SegmentCase) -> None:
    found = scan_headers(case.data, check_magic=False)
    assert (found.columns.rows, found.stop.position) == (case.batches, case.valid_bytes)
    has_late_magic = bool((found.columns.magic > 2).any())
    assert case.problem is (BadMagic if has_late_magic else kernel_scan(found).error)


def entry(*, length: int, magic: int, room: int = 200) -> bytes:
    """The beginning of an entry that claims `length`, in `room` bytes."""
    prefix = bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(4) + magic.to_bytes(1, signed=True)
    return (prefix + b"\x01" * room)[:room]


@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 2, 3, 127])
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 21, 22, 48, 49, 100, 188, 189, 2**31 - 1])
@pytest.mark.parametrize("check_magic", [False, True])
def test_an_entry_of_this_length_and_magic_is_judged_as_by_the_pure_scan(
    length: int, magic: int, check_magic: bool
) -> None:
    data = TRANSACTIONAL_BATCH + entry(length=length, magic=magic)
    found = scan_headers(data, check_crc=False, check_magic=check_magic)
    assert kernel_scan(found) == pure_scan(data, check_crc=False, check_magic=check_magic)


@pytest.mark.parametrize("left", [0, 1, 16, 17, 18, 60, 61])
@pytest.mark.parametrize("fill", [b"\x00", b"\x01"])
def test_a_tail_of_this_many_bytes_is_judged_as_by_the_pure_scan(left: int, fill: bytes) -> None:
    data = TRANSACTIONAL_BATCH + fill * left
    assert kernel_scan(scan_headers(data)) == pure_scan(data)
