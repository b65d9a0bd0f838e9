"""The compiled scan, decoding and writers give what the plain ones give, for whatever bytes."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.inspect import fast_records, segment_files
from spark_jobs.inspect.record_lines import RecordStyle, preview, record_lines
from spark_jobs.inspect.row_lines import (
    CellKind,
    ListingColumn,
    all_fields,
    as_json,
    as_text,
    format_rows,
    reading_fields,
)
from spark_jobs.inspect.segment_files import Segment, read_segment
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import Codec, TimestampType
from spark_jobs.kafka.formats.records import Header, Record
from tests.sample.log_directory import write_sample

SEGMENTS = sorted((Path(__file__).parents[1] / "recordings/data").rglob("*.log"))

nullable = st.none() | st.binary(max_size=300)
records = st.lists(
    st.builds(
        Record,
        offset_delta=st.integers(0, 2**31 - 1),
        timestamp_delta=st.integers(-(2**40), 2**40),
        key=nullable,
        value=nullable | st.text(max_size=200).map(str.encode),
        headers=st.lists(st.builds(Header, key=st.text(max_size=30), value=nullable), max_size=6).map(tuple),
    ),
    max_size=8,
)
batches = st.builds(
    build_batch,
    records=records,
    base_timestamp=st.integers(-(2**62), 2**62),
    base_offset=st.integers(0, 2**62),
    codec=st.sampled_from(Codec),
    timestamp_type=st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    producer_id=st.integers(-1, 5),
    is_transactional=st.booleans(),
)


def lines(segment: Segment, *, as_json: bool, fast: bool) -> tuple[bytes, list[str]]:
    """The records as lines, and the complaints on the way."""
    complaints: list[str] = []
    style = RecordStyle(topic='to"pic', partition=3, as_json=as_json, first_offset=2)
    rows = np.flatnonzero(segment.batches.crc_ok & (segment.batches.control_type < 0))
    pieces = record_lines(segment, rows, style, lambda problem: complaints.append(str(problem)), fast=fast)
    return b"".join(map(bytes, pieces)), complaints


def expect_twins(path: Path) -> None:
    """Everything that `inspect` can show of a segment, plain and compiled."""
    plain, fast = read_segment(path, fast=False), read_segment(path, fast=True)
    assert str(plain.problem) == str(fast.problem)
    for name in plain.batches._fields:
        assert np.array_equal(getattr(plain.batches, name), getattr(fast.batches, name)), name
    for json_lines in (True, False):
        assert lines(plain, as_json=json_lines, fast=False) == lines(fast, as_json=json_lines, fast=True)
    for columns in (as_json(all_fields(plain.batches), path="x"), as_text(reading_fields(plain.batches))):
        expected_rows = b"".join(format_rows(columns, "\n", fast=False))
        assert b"".join(format_rows(columns, "\n", fast=True)) == expected_rows


def name_of(path: Path) -> str:
    return f"{path.parents[2].name}-{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", SEGMENTS[::10], ids=name_of)
def test_recorded_segments_look_the_same(path: Path) -> None:
    expect_twins(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(batches, max_size=5), st.binary(max_size=80))
def test_any_batches_and_any_tail_look_the_same(tmp_path: Path, written: list[bytes], tail: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(b"".join(written) + tail)
    expect_twins(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(batches, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_damaged_batches_look_the_same(tmp_path: Path, written: list[bytes], chance: random.Random) -> None:
    damaged = bytearray(b"".join(written))
    for _ in range(3):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    path = tmp_path / "damaged"
    path.write_bytes(damaged)
    expect_twins(path)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(batches, max_size=8), st.binary(max_size=80) | st.just(bytes(200)), st.integers(1, 700))
def test_many_small_windows_and_parts_look_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[bytes], tail: bytes, size: int
) -> None:
    monkeypatch.setattr(segment_files, "_WINDOW", size)
    monkeypatch.setattr(fast_records, "_PART", size)
    path = tmp_path / "any"
    path.write_bytes(b"".join(written) + tail)
    expect_twins(path)


def test_legacy_messages_among_batches_look_the_same(tmp_path: Path) -> None:
    old = write_message(offset=0, magic=1, timestamp=5, key=b"k", value=None)
    new = build_batch(records=[Record(value=b"v")], base_timestamp=6, base_offset=1)
    (tmp_path / "mixed").write_bytes(old + new + old)
    expect_twins(tmp_path / "mixed")


def test_a_record_larger_than_the_output_buffer_is_written_whole(tmp_path: Path) -> None:
    value = bytes(range(256)) * 30_000
    (tmp_path / "big").write_bytes(
        build_batch(records=[Record(offset_delta=2, value=value)], base_timestamp=0)
    )
    expect_twins(tmp_path / "big")


def test_the_sample_looks_the_same(tmp_path: Path) -> None:
    write_sample(tmp_path)
    for path in tmp_path.rglob("*.log"):
        expect_twins(path)


int64s = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)


@given(int64s, st.integers(-30, 30), st.sampled_from(CellKind))
def test_any_numbers_are_written_the_same(numbers: list[int], width: int, kind: CellKind) -> None:
    labels = ("", "one", "two")
    values = [abs(number) % len(labels) for number in numbers] if kind is CellKind.LABEL else numbers
    column = ListingColumn(
        name="n", values=np.array(values, dtype=np.int64), kind=kind, labels=labels, width=width
    )
    for shown in (column, replace(column, null=values[0], nothing="-")):
        plain = b"".join(format_rows([shown], ";", fast=False))
        assert b"".join(format_rows([shown], ";", fast=True)) == plain


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.integers(1, 40))
def test_a_preview_is_short_and_printable(data: bytes, limit: int) -> None:
    shown = preview(data, limit)
    assert len(shown) <= max(limit + 1, 2)
    assert "\x1b" not in shown
    assert "\n" not in shown
