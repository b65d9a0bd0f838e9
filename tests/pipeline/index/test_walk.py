"""Every byte of an object is in a batch or in a stretch with a reason, for any content."""

import pyarrow.compute as pc
import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.log.segment import scan
from spark_jobs.pipeline.index.walk import WalkLimits
from tests.pipeline.index.objects import batch, marker, plain_object
from tests.pipeline.index.reading import LIMITS, index_bytes, index_object, viewed_bytes


def _problems(data: bytes, limits: WalkLimits = LIMITS) -> list[tuple[int, int, str]]:
    _, rows = index_bytes(data, limits=limits)
    assert pc.sum(rows["size"]).as_py() == len(data)
    damaged = rows.filter(pc.is_valid(rows["problem"]))
    return [(row["position"], row["size"], row["problem"]) for row in damaged.to_pylist()]


def test_rows_hold_the_header_fields_that_the_protocol_reads() -> None:
    data = batch(3, records=4, codec=Codec.ZSTD) + plain_object(5)

    _, rows = index_bytes(data)

    expected = [
        {name: getattr(found.header, name) for name in rows.column_names if hasattr(found.header, name)}
        for found in scan(data)
    ]
    names = list(expected[0])
    assert rows.select(names).to_pylist() == expected
    assert {"size", "base_offset", "crc", "producer_id", "base_sequence", "record_count"} <= set(names)


def test_markers_inherit_their_type_and_coordinator_epoch() -> None:
    _, rows = index_bytes(batch(0) + marker(1) + marker(2, ControlType.ABORT))

    assert rows["control_type"].to_pylist() == [None, 1, 0]
    assert rows["coordinator_epoch"].to_pylist() == [None, 3, 3]


def test_legacy_messages_are_rows_without_a_producer() -> None:
    old = write_message(offset=5, key=b"k", value=b"v", magic=0, timestamp=-1)
    newer = write_message(offset=6, key=b"k", value=b"v", magic=1, timestamp=9)

    _, rows = index_bytes(old + newer + batch(0))

    assert rows["magic"].to_pylist() == [0, 1, 2]
    assert rows["base_offset"].to_pylist() == [5, 6, 0]
    assert rows["producer_id"].to_pylist() == [-1, -1, 7]
    assert rows["problem"].null_count == 3


def test_a_wrong_checksum_costs_one_batch() -> None:
    first, bad, last = batch(0), bytearray(batch(1)), batch(2)
    bad[-1] ^= 1

    [(position, size, reason)] = _problems(first + bytes(bad) + last)

    assert (position, size) == (len(first), len(bad))
    assert reason.startswith("checksum mismatch: expected 0x")


def test_a_wrong_checksum_in_the_last_batch_costs_that_batch() -> None:
    first, bad = batch(0), bytearray(batch(1))
    bad[-1] ^= 1

    assert [(position, size) for position, size, _ in _problems(first + bytes(bad))] == [
        (len(first), len(bad))
    ]


def test_a_length_that_leads_nowhere_costs_the_rest_of_the_object() -> None:
    first, bad, rest = batch(0), bytearray(batch(1)), plain_object(10)
    bad[11] += 3

    [(position, size, reason)] = _problems(first + bytes(bad) + rest)

    assert (position, size) == (len(first), len(bad) + len(rest))
    assert reason.endswith("so the rest of the object is not read")


@pytest.mark.parametrize("kept", [1, 11, 17, 18, 60, 61, 66])
def test_a_torn_tail_is_one_stretch(kept: int) -> None:
    first, torn = batch(0), batch(1)[:kept]

    [(position, size, reason)] = _problems(first + torn)

    assert (position, size) == (len(first), kept)
    assert reason.startswith("torn batch")


def test_a_tail_of_zeros_is_one_stretch() -> None:
    first = batch(0)

    assert _problems(first + bytes(1000)) == [
        (len(first), 1000, "bad batch length: zeros instead of a batch")
    ]


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_byte_costs_one_batch(magic: int) -> None:
    first, bad, last = batch(0), bytearray(batch(1)), batch(2)
    bad[16] = magic

    [(position, size, reason)] = _problems(first + bytes(bad) + last)

    assert (position, size) == (len(first), len(bad))
    assert reason.startswith("bad magic byte: expected 0, 1 or 2")


def test_a_batch_above_the_limit_is_never_held_and_costs_one_row() -> None:
    first, big, last = batch(0), batch(1, value=b"x" * 5000), batch(2)

    for window_bytes in (100, 1000, 100_000):
        limits = WalkLimits(window_bytes=window_bytes, max_batch_bytes=4096)
        [(position, size, reason)] = _problems(first + big + last, limits)
        assert (position, size) == (len(first), len(big))
        assert reason.startswith("limit exceeded: expected a batch of at most 4096 bytes")


def test_a_file_that_is_not_kafkas_is_one_stretch() -> None:
    text = b"time,level,message\n" * 400

    assert [(position, size) for position, size, _ in _problems(text)] == [(0, len(text))]


def test_an_empty_object_has_no_rows() -> None:
    _, rows = index_bytes(b"")

    assert rows.num_rows == 0


@pytest.mark.parametrize("window_bytes", [61, 62, 100, 997, 4096])
def test_the_window_changes_nothing(window_bytes: int) -> None:
    bad = bytearray(batch(99, value=b"z" * 300))
    bad[-1] ^= 1
    data = plain_object(30) + bytes(bad) + plain_object(20) + batch(5)[:40]
    _, whole = index_bytes(data)

    _, seen = index_bytes(data, limits=WalkLimits(window_bytes=window_bytes))

    assert seen.equals(whole)


@pytest.mark.parametrize("window_bytes", [61, 997, 1 << 20])
@pytest.mark.parametrize("cuts", [[], [1500, 4000]])
def test_what_is_only_looked_at_gives_the_rows_of_what_is_read(window_bytes: int, cuts: list[int]) -> None:
    bad = bytearray(batch(99, value=b"z" * 300))
    bad[-1] ^= 1
    data = plain_object(30) + bytes(bad) + marker(3) + plain_object(20) + batch(5)[:40]
    _, read = index_bytes(data, cuts)

    def read_range(start: int, length: int) -> bytes:
        return data[start : start + length]

    limits = WalkLimits(window_bytes=window_bytes)
    _, seen = index_object(read_range, len(data), cuts, limits, view_range=viewed_bytes(data))

    assert seen.equals(read)
    assert seen.num_rows > 50


def test_no_claimed_length_makes_a_reader_hold_more_than_its_limits() -> None:
    strange, vast = bytearray(batch(0)), bytearray(batch(1))
    strange[16], vast[8] = 3, 0x70
    start = batch(0) + bytes(strange) + bytes(vast)
    size, longest = 2**31, 0

    def read_range(position: int, length: int) -> bytes:
        nonlocal longest
        longest = max(longest, length)
        return start[position : position + length].ljust(length, b"\0")

    limits = WalkLimits(window_bytes=1000, max_batch_bytes=5000)
    _, rows = index_object(read_range, size, [], limits)

    assert longest <= 5000
    assert rows["size"].to_pylist() == [len(batch(0)), len(strange), size - len(batch(0)) - len(strange)]


@pytest.mark.parametrize("window_bytes", [64, 300, 2**20])
def test_records_without_key_are_counted_where_asked_for_whatever_the_windows(window_bytes: int) -> None:
    keyless = build_batch(records=[Record(offset_delta=n, value=b"v") for n in range(3)], base_timestamp=0)
    damaged = keyless[:-1] + bytes((keyless[-1] ^ 1,))
    data = batch(0) + keyless + marker(1) + damaged + keyless
    _, rows = index_bytes(data, limits=WalkLimits(window_bytes=window_bytes, record_limits=DEFAULT_LIMITS))
    assert rows["records_without_key"].to_pylist() == [1, 3, 0, 0, 3]
    _, rows = index_bytes(data)
    assert rows["records_without_key"].to_pylist() == [0] * 5
