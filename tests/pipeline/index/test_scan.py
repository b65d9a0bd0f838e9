"""One piece: objects that cannot be read, and guesses that cost no more than they may."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow.compute as pc
import pytest

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header, write_header
from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, StorageError, StoreUnavailable
from spark_jobs.pipeline.index.walk import ReadRange, StagedBytes, WalkLimits
from spark_jobs.pipeline.index.worker import EFFORT, SEARCH_BYTES, Searcher
from tests.pipeline.index.objects import batch, plain_object
from tests.pipeline.index.reading import index_object

SMALL = WalkLimits(window_bytes=500)
DATA = plain_object(40)


def _failing(error: StorageError, after: int) -> ReadRange:
    """Reads `DATA` up to a position, and fails behind it."""

    def read_range(start: int, length: int) -> bytes:
        if start + length > after:
            raise error
        return DATA[start : start + length]

    return read_range


@pytest.mark.parametrize("error", [ObjectMissing("it is gone"), ObjectChanged("it is another one")])
@pytest.mark.parametrize("cuts", [[], [1000], [1000, 2000, 3000]])
def test_what_cannot_be_read_any_more_is_one_stretch_with_the_reason(
    error: StorageError, cuts: list[int]
) -> None:
    _, rows = index_object(_failing(error, 1700), len(DATA), cuts, SMALL)

    assert pc.sum(rows["size"]).as_py() == len(DATA)
    assert rows["problem"].null_count == rows.num_rows - 1 > 10
    assert rows["problem"].to_pylist()[-1] == f"cannot be read: {error}"


def test_what_changes_while_it_is_looked_at_has_not_been_seen() -> None:
    error = ObjectChanged("it is another one")

    @contextmanager
    def view_range(start: int, length: int) -> Iterator[bytes | memoryview]:
        yield memoryview(DATA)[start : start + length]
        if start + length > 1700:
            raise error

    _, rows = index_object(_failing(error, 1700), len(DATA), [], SMALL, view_range=view_range)

    assert pc.sum(rows["size"]).as_py() == len(DATA)
    assert rows["problem"].null_count == rows.num_rows - 1
    last = rows.slice(rows.num_rows - 1).to_pylist()[0]
    assert last["problem"] == f"cannot be read: {error}"
    assert 1000 < last["position"] <= 1700


def test_an_object_that_is_shorter_than_staged_is_one_stretch_with_both_sizes() -> None:
    _, rows = index_object(lambda start, length: DATA[:1700][start : start + length], len(DATA), [], SMALL)

    assert pc.sum(rows["size"]).as_py() == len(DATA)
    assert rows["problem"].to_pylist()[-1] == f"cannot be read: expected {len(DATA)} bytes, found 1700"


def test_a_store_that_fails_for_now_is_no_damage() -> None:
    with pytest.raises(StoreUnavailable):
        index_object(_failing(StoreUnavailable("no answer"), 1700), len(DATA), [], SMALL)


def test_a_range_full_of_false_headers_costs_a_bounded_effort() -> None:
    false = write_header(replace(read_header(batch(0)), batch_length=200_000))
    data = batch(0, value=false * 10_000)
    read = 0

    def read_range(start: int, length: int) -> bytes:
        nonlocal read
        read += length
        return data[start : start + length]

    start, stop = 1000, 101_000
    searcher = Searcher(
        StagedBytes(size=len(data), read_range=read_range), start=start, stop=stop, limits=WalkLimits()
    )

    assert searcher.next_boundary(start) is None
    assert read < (EFFORT + 3) * (stop - start) + 2 * 200_000


def test_what_looks_like_a_header_with_nothing_behind_it_is_not_read_as_a_batch() -> None:
    false = write_header(replace(read_header(batch(0)), batch_length=900_000))
    data = batch(0, value=(false + b"text" * 10) * 100) + plain_object(40_000)
    read = 0

    def read_range(start: int, length: int) -> bytes:
        nonlocal read
        read += length
        return data[start : start + length]

    staged = StagedBytes(size=len(data), read_range=read_range)
    found = Searcher(staged, start=100, stop=len(data), limits=WalkLimits()).next_boundary(100)

    assert found == len(data) - len(plain_object(40_000))
    assert read < SEARCH_BYTES + 200 * HEADER_SIZE
