"""Rows from headers that `stage` has written are those of the bytes, for any object and any such file."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.record_batch import Codec, read_header, write_header
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.lake import staged_headers
from spark_jobs.lake.errors import ObjectChanged, StoreUnavailable
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.staged_headers import HeaderFile, headers_file, read_headers
from spark_jobs.pipeline.index.step import JoinedParts
from spark_jobs.pipeline.index.walk import WalkLimits
from spark_jobs.pipeline.index.worker import KnownHeaders, no_headers
from tests.pipeline.index.objects import batch, marker, nested_object, plain_object
from tests.pipeline.index.reading import LIMITS, MemoryOutput, index_object

SHA256, FOLDER = "ab" * 32, "staging/2024-05-01/headers"


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_headers, "ROWS_PER_BLOCK", 5)
        patch.setattr(staged_headers, "SAMPLE", 10**9)
        yield


@contextmanager
def _headers(
    data: bytes, *, piece: int = 1000, damage: Callable[[bytes], bytes] = lambda file: file
) -> Iterator[KnownHeaders]:
    """What a task of `index` would find after `stage` has read `data`."""
    with tempfile.TemporaryDirectory() as directory:
        lake = FileStore(directory)
        with HeaderFile(lake) as file:
            for start in range(0, len(data), piece):
                file.add(data[start : start + piece])
            has_file = file.finish(FOLDER, sha256=SHA256, size=len(data))
        if has_file:
            key = f"{FOLDER}/{headers_file(SHA256)}"
            lake.put(key, damage(lake.read(key)))
        yield lambda start, stop: read_headers(
            lake, FOLDER, sha256=SHA256, size=len(data), start=start, stop=stop
        )


def _index(
    data: bytes, cuts: Sequence[int], limits: WalkLimits, headers: KnownHeaders = no_headers
) -> tuple[JoinedParts, pa.Table, int]:
    """How the parts joined, their rows, and how many bytes were read."""
    read = 0

    def read_range(start: int, length: int) -> bytes:
        nonlocal read
        read += length
        return data[start : start + length]

    joined, rows = index_object(read_range, len(data), cuts, limits, headers=headers)
    return joined, rows, read


def _spoiled(sequence: int, place: int) -> bytes:
    data = bytearray(batch(sequence, value=b"x" * 50))
    data[place % len(data)] ^= 0x10
    return bytes(data)


PIECES = st.one_of(
    st.builds(
        batch,
        st.integers(0, 1000),
        value=st.binary(max_size=300),
        records=st.integers(1, 4),
        codec=st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]),
    ),
    st.builds(marker, st.integers(0, 2**40)),
    st.builds(_spoiled, st.integers(0, 9), st.integers(0, 200)),
    st.builds(nested_object, st.integers(1, 4)),
    st.binary(max_size=100),
    st.builds(bytes, st.integers(0, 100)),
    st.builds(
        lambda length: write_header(replace(read_header(batch(0)), batch_length=length)),
        st.integers(-1, 2**31 - 1),
    ),
)
OBJECTS = st.builds(
    lambda good, pieces, cut: (plain_object(good) + b"".join(pieces))[: cut or None],
    st.integers(0, 30),
    st.lists(PIECES, max_size=12),
    st.integers(-80, 0),
)


@given(
    data=OBJECTS,
    cuts=st.sets(st.integers(1, 3000), max_size=4),
    piece=st.integers(50, 5000),
    window=st.sampled_from([100, 1000, 2**20]),
    largest=st.sampled_from([150, 100 * 2**20]),
)
@example(data=nested_object(40), cuts={500, 2000, 2500}, piece=999, window=100, largest=10**6)
def test_parts_files_and_rows_are_the_same_with_and_without_headers(
    data: bytes, cuts: set[int], piece: int, window: int, largest: int
) -> None:
    limits = WalkLimits(window_bytes=window, max_batch_bytes=largest)
    places = sorted(cut for cut in cuts if cut < len(data))
    expected, expected_rows, _ = _index(data, places, limits)

    with _headers(data, piece=piece) as headers:
        found, rows, _ = _index(data, places, limits, headers)

    assert rows.equals(expected_rows)
    assert found == expected


@given(
    data=OBJECTS,
    place=st.integers(0, 5000),
    bits=st.integers(0, 255),
    cuts=st.sets(st.integers(1, 3000), max_size=2),
)
def test_a_damaged_file_changes_no_row(data: bytes, place: int, bits: int, cuts: set[int]) -> None:
    def damage(file: bytes) -> bytes:
        at = place % len(file)
        return file[:at] if not bits else file[:at] + bytes([file[at] ^ bits]) + file[at + 1 :]

    places = sorted(cut for cut in cuts if cut < len(data))
    with _headers(data, damage=damage) as headers:
        found, rows, _ = _index(data, places, LIMITS, headers)

    expected, expected_rows, _ = _index(data, places, LIMITS)
    assert rows.equals(expected_rows)
    assert found == expected


def test_of_an_intact_object_one_header_is_read() -> None:
    data = plain_object(500)
    with _headers(data) as headers:
        _, rows, read = _index(data, [], LIMITS, headers)
    assert rows.num_rows == 500
    assert read == 61


def test_behind_the_last_intact_batch_bytes_are_read() -> None:
    data = plain_object(300) + _spoiled(0, 70) + plain_object(40)
    with _headers(data) as headers:
        _, rows, read = _index(data, [], LIMITS, headers)
    assert rows.num_rows == 341
    assert rows["problem"].null_count == 340
    assert read < len(data) - len(plain_object(300)) + 300


def test_headers_of_other_bytes_are_not_used() -> None:
    data = plain_object(100)
    changed = batch(1, value=b"")[:61] + data[61:]
    with _headers(data) as headers:
        _, rows, read = _index(changed, [], LIMITS, headers)
    assert read >= len(data)
    assert rows.equals(_index(changed, [], LIMITS)[1])


def test_an_object_that_is_no_longer_the_staged_one_is_one_stretch_with_the_reason() -> None:
    data, error = plain_object(100), ObjectChanged("it is another one")

    def read_range(start: int, length: int) -> bytes:
        raise error

    with _headers(data) as headers:
        _, rows = index_object(read_range, len(data), headers=headers)
    assert rows["problem"].to_pylist() == [f"cannot be read: {error}"]


def test_a_store_that_fails_for_now_is_no_missing_file() -> None:
    def headers(start: int, stop: int) -> Iterator[HeaderColumns]:
        raise StoreUnavailable("no answer")

    with pytest.raises(StoreUnavailable):
        _index(plain_object(10), [], LIMITS, headers)


@pytest.mark.parametrize("window", [300, 5000, 10**6])
def test_row_groups_do_not_depend_on_windows(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.pipeline.index.worker.ROWS_PER_GROUP", 16)
    groups: list[int] = []
    monkeypatch.setattr(MemoryOutput, "write", lambda _, table: groups.append(table.num_rows))
    data = plain_object(20) + _spoiled(0, 70) + plain_object(20)

    _index(data, [], WalkLimits(window_bytes=window))

    assert groups == [16, 16, 9]
