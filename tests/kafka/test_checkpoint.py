from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import (
    EpochEntry,
    OffsetCheckpointEntry,
    read_leader_epochs,
    read_offsets,
    write_leader_epochs,
    write_offsets,
)
from tests.kafka.strategies import EPOCH_ENTRIES, OFFSET_ENTRIES

READERS: list[Callable[[bytes], tuple[object, ...]]] = [read_leader_epochs, read_offsets]
EPOCHS = (EpochEntry(epoch=0, start_offset=0), EpochEntry(epoch=3, start_offset=120))
OFFSETS = (
    OffsetCheckpointEntry(topic="__consumer_offsets", partition=49, offset=0),
    OffsetCheckpointEntry(topic="orders.v1", partition=0, offset=2**40),
)


def test_leader_epochs_are_one_line_each_after_version_and_count() -> None:
    assert write_leader_epochs(EPOCHS) == b"0\n2\n0 0\n3 120\n"
    assert read_leader_epochs(b"0\n2\n0 0\n3 120\n") == EPOCHS


def test_offsets_are_one_line_each_after_version_and_count() -> None:
    text = b"0\n2\n__consumer_offsets 49 0\norders.v1 0 1099511627776\n"
    assert write_offsets(OFFSETS) == text
    assert read_offsets(text) == OFFSETS


@given(st.lists(EPOCH_ENTRIES, max_size=5))
def test_leader_epochs_are_read_as_written(entries: list[EpochEntry]) -> None:
    assert read_leader_epochs(write_leader_epochs(entries)) == tuple(entries)


@given(st.lists(OFFSET_ENTRIES, max_size=5))
def test_offsets_are_read_as_written(entries: list[OffsetCheckpointEntry]) -> None:
    assert read_offsets(write_offsets(entries)) == tuple(entries)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [b"", b"0\n", b"0", b"0\n0\n", b"0\n0"])
def test_a_file_that_ends_early_has_no_entries(
    read: Callable[[bytes], tuple[object, ...]], data: bytes
) -> None:
    assert read(data) == ()


def test_line_ends_of_other_systems_and_a_missing_last_one_are_read() -> None:
    assert read_leader_epochs(b"0\r\n2\r\n0 0\r\n3 120") == EPOCHS


@pytest.mark.parametrize(
    ("data", "position"),
    [
        pytest.param(b"1\n0\n", 0, id="version 1"),
        pytest.param(b"zero\n0\n", 0, id="a version that is no number"),
        pytest.param(b"0\nmany\n", 2, id="a count that is no number"),
        pytest.param(b"0\n1\n", 2, id="fewer entries than counted"),
        pytest.param(b"0\n1\n0 0\n1 1\n", 2, id="more entries than counted"),
        pytest.param(b"0\n2\n0 0\n1\n", 8, id="a field too few"),
        pytest.param(b"0\n2\n0 0\n1 1 1\n", 8, id="a field too many"),
        pytest.param(b"0\n2\n0 0\n\n", 8, id="an empty line"),
        pytest.param(b"0\n2\n0 0\n 1 1\n", 8, id="a space in front"),
        pytest.param(b"0\n1\n0 x\n", 4, id="an offset that is no number"),
        pytest.param(b"0\n1\n0 1_0\n", 4, id="a number as only Python writes it"),
        pytest.param(b"0\n1\n2147483648 0\n", 4, id="an epoch beyond 32 bits"),
        pytest.param(b"0\n1\n0 9223372036854775808\n", 4, id="an offset beyond 64 bits"),
        pytest.param(b"0\n1\n0 " + b"9" * 9000, 4, id="an offset of nine thousand digits"),
        pytest.param(b"\xff\xfe\n", 0, id="no text"),
    ],
)
def test_a_malformed_file_is_corrupt_at_the_line(data: bytes, position: int) -> None:
    with pytest.raises(CorruptCheckpoint) as raised:
        read_leader_epochs(data, source="leader-epoch-checkpoint")
    assert (raised.value.source, raised.value.position) == ("leader-epoch-checkpoint", position)
