from struct import pack

import pytest

from spark_jobs.kafka.errors import CorruptIndex
from spark_jobs.kafka.formats.indexes import (
    OffsetPosition,
    TimestampOffset,
    read_offset_index,
    read_time_index,
)


def test_offsets_are_relative_to_the_segment() -> None:
    data = pack(">iiii", 5, 4096, 9, 8200)
    assert read_offset_index(data, base_offset=100) == (
        OffsetPosition(offset=105, position=4096),
        OffsetPosition(offset=109, position=8200),
    )


def test_timestamps_come_with_offsets() -> None:
    data = pack(">qiqi", 1700, 5, 1800, 9)
    assert read_time_index(data, base_offset=100) == (
        TimestampOffset(timestamp=1700, offset=105),
        TimestampOffset(timestamp=1800, offset=109),
    )


def test_zeros_that_a_crash_left_behind_are_no_entries() -> None:
    assert len(read_offset_index(pack(">ii", 5, 4096) + bytes(8000), base_offset=0)) == 1
    assert read_time_index(bytes(1200), base_offset=0) == ()


def test_a_first_entry_at_relative_offset_0_is_an_entry() -> None:
    assert read_offset_index(pack(">ii", 0, 78), base_offset=7) == (OffsetPosition(offset=7, position=78),)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(7), id="half an entry"),
        pytest.param(pack(">iiii", 5, 1, 5, 2), id="the same offset again"),
        pytest.param(pack(">iiii", 5, 1, 0, 0) + pack(">ii", 6, 2), id="zeros between entries"),
    ],
)
def test_an_index_that_does_not_increase_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndex) as raised:
        read_offset_index(data, base_offset=0, source="0.index")
    assert raised.value.source == "0.index"


def test_a_time_index_that_goes_back_is_corrupt_at_its_entry() -> None:
    with pytest.raises(CorruptIndex) as raised:
        read_time_index(pack(">qiqi", 1800, 5, 1700, 9), base_offset=0)
    assert raised.value.position == 12
