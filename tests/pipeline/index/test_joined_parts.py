"""An object that is cut anywhere has the rows of the object that is not: guesses are checked, not trusted."""

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.pipeline.index.step import IndexedBin, join_all_parts
from spark_jobs.pipeline.index.walk import WalkLimits
from tests.kafka.strategies import BATCHES, MARKERS, MESSAGES, damaged
from tests.pipeline.index.objects import batch, nested_object, plain_object
from tests.pipeline.index.reading import index_bytes, index_object, parts, summary


def _damaged_object() -> bytes:
    bad = bytearray(batch(50, value=b"z" * 90))
    bad[-1] ^= 1
    return plain_object(4) + bytes(bad) + plain_object(4)


OBJECTS = {
    "plain batches": plain_object(9),
    "values that are whole batches": nested_object(4),
    "one batch full of batches": batch(0, value=plain_object(9)),
    "a damaged batch": _damaged_object(),
    "a damaged batch full of batches": _damaged_object()[:-200] + nested_object(2)[:-1],
    "a torn tail": plain_object(8)[:-5],
    "a tail of zeros": plain_object(5) + bytes(150),
    "zeros only": bytes(300),
    "legacy messages": b"".join(
        write_message(offset=offset, key=b"k", value=b"v" * 20, magic=1, timestamp=9) for offset in range(8)
    ),
    "no batch at all": bytes(range(256)) * 2,
}


@pytest.mark.parametrize("data", OBJECTS.values(), ids=OBJECTS.keys())
def test_a_cut_at_any_position_changes_no_row(data: bytes) -> None:
    _, whole = index_bytes(data)
    assert pc.sum(whole["size"]).as_py() == len(data)

    for cut in range(1, len(data)):
        joined, rows = index_bytes(data, [cut])
        assert rows.equals(whole), cut
        assert sum(each.bytes for each in joined.kept) == len(data)


@pytest.mark.parametrize("data", OBJECTS.values(), ids=OBJECTS.keys())
@pytest.mark.parametrize("length", [23, 61, 100])
def test_many_cuts_change_no_row(data: bytes, length: int) -> None:
    _, whole = index_bytes(data)

    _, rows = index_bytes(data, range(length, len(data), length), WalkLimits(window_bytes=64))

    assert rows.equals(whole)


@given(st.data())
def test_random_cuts_of_nested_batches_change_no_row(data: st.DataObject) -> None:
    bytes_ = nested_object(5)
    cuts = data.draw(st.lists(st.integers(1, len(bytes_) - 1), unique=True, max_size=6).map(sorted))
    _, whole = index_bytes(bytes_)

    _, rows = index_bytes(bytes_, cuts)

    assert rows.equals(whole)


@given(data=damaged(st.lists(BATCHES | MARKERS | MESSAGES, max_size=5).map(b"".join)), drawn=st.data())
def test_whatever_the_bytes_are_none_is_lost_and_cuts_change_no_row(
    data: bytes, drawn: st.DataObject
) -> None:
    _, whole = index_bytes(data)
    cuts = drawn.draw(st.sets(st.integers(1, max(len(data) - 1, 1)), max_size=4).map(sorted))

    _, rows = index_bytes(data, [cut for cut in cuts if cut < len(data)])

    assert (pc.sum(whole["size"]).as_py() or 0) == len(data)
    assert rows.equals(whole)


def test_parts_that_fit_are_read_once() -> None:
    data = batch(0, value=b"v" * 1000) * 2000
    read: list[int] = []

    def read_range(start: int, length: int) -> bytes:
        read.append(length)
        return data[start : start + length]

    _, rows = index_object(read_range, len(data), [len(data) // 2])

    assert rows.num_rows == 2000
    assert sum(read) < 1.2 * len(data)


def test_a_part_that_begins_elsewhere_is_read_again_from_where_the_one_before_ends() -> None:
    first, second = parts(100, [50])

    joined = join_all_parts(
        [
            IndexedBin(bin=first, summary=summary(0, 57)),
            IndexedBin(bin=second, summary=summary(60, 100)),
        ]
    )

    assert [each.bin for each in joined.kept] == [first]
    assert joined.again == (second.begin_at(57),)


def test_a_part_inside_a_batch_has_no_rows() -> None:
    first, second, third = parts(100, [40, 60])

    joined = join_all_parts(
        [
            IndexedBin(bin=first, summary=summary(0, 80)),
            IndexedBin(bin=second, summary=summary(45, 62)),
            IndexedBin(bin=third, summary=summary(80, 100)),
        ]
    )

    assert [each.bin for each in joined.kept] == [first, third]
    assert [each.bin for each in joined.empty] == [second]
    assert joined.again == ()
