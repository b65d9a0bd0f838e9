from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptData, InvalidRecord, LimitExceeded
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, RecordLimits
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, TimestampType, read_header
from spark_jobs.kafka.formats.records import Header, LogRecord, Record, read_records, write_records
from spark_jobs.kafka.log.segment import read_batch_records, scan
from spark_jobs.kernels.decode import DecodedBatches, count_without_key, decode_batches
from spark_jobs.kernels.record_buffers import RECORD_SCHEMA
from spark_jobs.kernels.scan import scan_headers
from tests.cases.golden import COMMIT_MARKER, TRANSACTIONAL_BATCH
from tests.kafka.strategies import BATCHES, MARKERS

BATCH_LISTS = st.lists(BATCHES | MARKERS, max_size=6)
LIMIT = 1 << 20


def decoded(
    data: bytes, *, budget: int = 1 << 20, limit: int = LIMIT, limits: RecordLimits = DEFAULT_LIMITS
) -> list[DecodedBatches]:
    headers = scan_headers(data, check_crc=False).columns
    return list(decode_batches(data, headers, budget=budget, limit=limit, limits=limits))


Row = tuple[int, LogRecord]
Problem = tuple[int, type[CorruptData], int]


def kernel_rows(data: bytes, pieces: list[DecodedBatches]) -> list[Row]:
    """(batch, record) of every record, in the form of the pure twin."""
    positions = scan_headers(data, check_crc=False).columns.position.tolist()
    rows = chain.from_iterable(piece.records.to_pylist() for piece in pieces)
    return [
        (
            row["batch"],
            LogRecord(
                offset=row["offset"],
                timestamp=row["timestamp"],
                timestamp_type=read_header(data, positions[row["batch"]]).timestamp_type,
                key=row["key"],
                value=row["value"],
                headers=tuple(Header(key=header["key"], value=header["value"]) for header in row["headers"]),
                sequence=row["sequence"],
            ),
        )
        for row in rows
    ]


def kernel_problems(pieces: list[DecodedBatches]) -> list[Problem]:
    problems = chain.from_iterable(piece.problems for piece in pieces)
    return [(problem.batch, type(problem.error), problem.error.position) for problem in problems]


def pure_answer(
    data: bytes, limit: int = LIMIT, limits: RecordLimits = DEFAULT_LIMITS
) -> tuple[list[Row], list[Problem]]:
    """The same through `kafka.formats.records`; a batch with a problem gives no records at all."""
    headers = scan_headers(data, check_crc=False).columns
    rows: list[Row] = []
    problems: list[Problem] = []
    limits = replace(limits, decompressed_bytes=limit)
    for batch, (position, size) in enumerate(
        zip(headers.position.tolist(), headers.size.tolist(), strict=True)
    ):
        try:
            records = list(read_records(data[position : position + size], limits=limits, position=position))
        except CorruptData as error:
            problems.append((batch, type(error), error.position))
        else:
            rows += [(batch, record) for record in records]
    return rows, problems


def check(
    data: bytes, *, budget: int = 1 << 20, limit: int = LIMIT, limits: RecordLimits = DEFAULT_LIMITS
) -> None:
    pieces = decoded(data, budget=budget, limit=limit, limits=limits)
    for piece in pieces:
        piece.records.validate(full=True)
        assert piece.records.schema == RECORD_SCHEMA
    assert (kernel_rows(data, pieces), kernel_problems(pieces)) == pure_answer(data, limit, limits)


def test_golden_batches_give_their_records() -> None:
    (piece,) = decoded(TRANSACTIONAL_BATCH + COMMIT_MARKER)
    assert piece.problems == ()
    assert piece.records.to_pylist() == [
        {
            "batch": 0,
            "offset": 0,
            "timestamp": 1_700_000_000_000,
            "sequence": 0,
            "key": b"k",
            "value": b"v",
            "headers": [],
        },
        {
            "batch": 0,
            "offset": 1,
            "timestamp": 1_700_000_000_001,
            "sequence": 1,
            "key": None,
            "value": None,
            "headers": [{"key": "h", "value": None}],
        },
        {
            "batch": 1,
            "offset": 10,
            "timestamp": 1_700_000_000_000,
            "sequence": -1,
            "key": bytes.fromhex("00000001"),
            "value": bytes.fromhex("000000000005"),
            "headers": [],
        },
    ]


def test_null_is_not_empty_in_keys_values_and_headers() -> None:
    headers = (Header(key="", value=None), Header(key="", value=b""))
    records = [Record(key=None, value=b"", headers=headers), Record(key=b"", value=None)]
    (piece,) = decoded(build_batch(records=records, base_timestamp=0))
    rows = piece.records.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(None, b""), (b"", None)]
    assert rows[0]["headers"] == [{"key": "", "value": None}, {"key": "", "value": b""}]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [1, 1000, 70_000, 300_000])
def test_payloads_of_any_size_and_codec_are_read(codec: Codec, size: int) -> None:
    value = bytes(range(256)) * (size // 256 + 1)
    records = [Record(offset_delta=index, key=b"%d" % index, value=value[:size]) for index in range(3)]
    batch = build_batch(records=records, base_timestamp=5, codec=codec, base_sequence=7)
    check(batch + COMMIT_MARKER + batch, limit=1 << 24)


def test_log_append_time_stamps_every_record_with_the_batch_s_time() -> None:
    records = [Record(offset_delta=0), Record(offset_delta=1, timestamp_delta=50)]
    batch = build_batch(
        records=records, base_timestamp=5, max_timestamp=99, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    (piece,) = decoded(batch)
    assert piece.records.column("timestamp").to_pylist() == [99, 99]


def test_an_emptied_batch_gives_no_records_whatever_its_payload() -> None:
    empty = seal(read_header(build_batch(records=[], base_timestamp=0)), b"\x05junk")
    compressed = seal(read_header(build_batch(records=[], base_timestamp=0, codec=Codec.ZSTD)), b"junk")
    (piece,) = decoded(empty + compressed + COMMIT_MARKER)
    assert piece.problems == ()
    assert piece.records.column("batch").to_pylist() == [2]


@given(BATCH_LISTS)
def test_whole_batches_give_the_records_of_the_pure_twin(batches: list[bytes]) -> None:
    check(b"".join(batches))


@given(BATCH_LISTS, st.integers(0, 200))
def test_pieces_of_any_budget_join_to_the_whole(batches: list[bytes], budget: int) -> None:
    check(b"".join(batches), budget=budget)
    pieces = decoded(b"".join(batches), budget=budget)
    assert [piece.first for piece in pieces] == [0, *(piece.last for piece in pieces)][: len(pieces)]


@st.composite
def damaged_payloads(draw: st.DrawFn) -> bytes:
    """Batches whose headers are right about a payload that is not."""
    parts = []
    for batch in draw(BATCH_LISTS):
        payload = bytearray(batch[HEADER_SIZE:])
        for _ in range(draw(st.integers(0, 2)) if payload else 0):
            payload[draw(st.integers(0, len(payload) - 1))] = draw(
                st.sampled_from((0, 1, 127, 128, 255)) | st.integers(0, 255)
            )
        cut = draw(st.integers(0, len(payload)) | st.just(len(payload)) | st.just(len(payload)))
        parts.append(
            seal(read_header(batch), bytes(payload[:cut]) + draw(st.sampled_from((b"", b"", b"\0"))))
        )
    return b"".join(parts)


@given(damaged_payloads())
def test_damaged_payloads_fail_at_the_byte_where_the_pure_twin_fails(data: bytes) -> None:
    check(data)


@given(st.lists(st.binary(max_size=12), max_size=4), st.binary(max_size=30))
def test_payloads_of_random_bytes_fail_at_the_byte_where_the_pure_twin_fails(
    payloads: list[bytes], last: bytes
) -> None:
    header = read_header(build_batch(records=[Record(), Record()], base_timestamp=0))
    check(b"".join(seal(header, payload) for payload in (*payloads, last)))


@given(st.binary(max_size=12))
def test_header_keys_that_are_not_utf8_are_shown_with_replacement_characters(key: bytes) -> None:
    placeholder = "A" * len(key)
    batch = build_batch(records=[Record(headers=(Header(key=placeholder, value=b"v"),))], base_timestamp=0)
    data = batch.replace(placeholder.encode(), key) if key else batch
    check(data)


def test_a_payload_beyond_the_limit_is_a_problem_of_its_batch_alone() -> None:
    bomb = build_batch(records=[Record(value=bytes(100_000))], base_timestamp=0, codec=Codec.ZSTD)
    (piece,) = decoded(COMMIT_MARKER + bomb + COMMIT_MARKER, limit=1000)
    assert kernel_problems([piece]) == [(1, LimitExceeded, 78 + HEADER_SIZE)]
    assert piece.records.column("batch").to_pylist() == [0, 2]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_payload_is_read_up_to_the_very_limit(codec: Codec) -> None:
    records = [Record(value=bytes(10_000))]
    size = len(write_records(records))
    batch = build_batch(records=records, base_timestamp=0, codec=codec)
    (within,), (beyond,) = decoded(batch, limit=size), decoded(batch, limit=size - 1)
    assert within.problems == ()
    assert [type(problem.error) for problem in beyond.problems] == [LimitExceeded]


@given(BATCH_LISTS, st.integers(1, 3), st.integers(0, 2))
def test_batches_beyond_the_counts_that_are_allowed_fail_where_the_pure_twin_fails(
    batches: list[bytes], records: int, headers: int
) -> None:
    check(b"".join(batches), limits=RecordLimits(records_per_batch=records, headers_per_record=headers))


def test_a_count_beyond_its_limit_is_a_problem_of_its_batch_alone() -> None:
    many = build_batch(records=[Record(), Record(), Record()], base_timestamp=0)
    laden = build_batch(records=[Record(headers=(Header(key="k", value=None),) * 3)], base_timestamp=0)
    limits = RecordLimits(records_per_batch=2, headers_per_record=2)
    (piece,) = decoded(many + COMMIT_MARKER + laden, limits=limits)
    assert [(batch, kind) for batch, kind, _ in kernel_problems([piece])] == [
        (0, LimitExceeded),
        (2, InvalidRecord),
    ]
    assert piece.records.column("batch").to_pylist() == [1]


def test_a_problem_names_source_and_byte() -> None:
    broken = seal(read_header(COMMIT_MARKER), b"\x20\x00")
    headers = scan_headers(COMMIT_MARKER + broken).columns
    (piece,) = decode_batches(COMMIT_MARKER + broken, headers, source="0.log", origin=1000)
    (problem,) = piece.problems
    assert isinstance(problem.error, InvalidRecord)
    assert str(problem.error).startswith(f"0.log at byte {1000 + 78 + HEADER_SIZE + 1}: invalid record")


@given(st.lists(BATCHES, max_size=6))
def test_records_without_key_are_counted_as_the_pure_twin_reads_them(batches: list[bytes]) -> None:
    data = b"".join(batches)
    headers = scan_headers(data).columns
    expected = [sum(record.key is None for record in read_batch_records(data, batch)) for batch in scan(data)]
    assert count_without_key(data, headers).tolist() == expected


def test_a_batch_that_cannot_be_read_counts_no_record_without_key() -> None:
    whole = build_batch(records=[Record(value=b"v")], base_timestamp=0)
    torn = seal(replace(read_header(whole), record_count=2), whole[HEADER_SIZE:])
    data = whole + torn + whole
    assert count_without_key(data, scan_headers(data).columns).tolist() == [1, 0, 1]
