"""Damaged and random bytes give a value or an `OnceoverError`; any other exception fails the test."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.checkpoints import (
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
    write_leader_epochs,
    write_offsets,
)
from spark_jobs.kafka.formats.compression import compress, decompress
from spark_jobs.kafka.formats.control_record import read_first_control_type, read_marker
from spark_jobs.kafka.formats.indexes import (
    read_offset_index,
    read_time_index,
    read_txn_index,
    write_txn_index,
)
from spark_jobs.kafka.formats.legacy import read_legacy_records
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.log_files import parse_file_name, parse_partition_dir
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, check_batch, read_header
from spark_jobs.kafka.formats.records import read_records, write_records
from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.log.segment import read_batch_records, scan, scan_result
from tests.kafka.strategies import (
    ABORTED_TXNS,
    BATCHES,
    CODECS,
    ENTRIES,
    EPOCH_ENTRIES,
    INT32,
    MARKERS,
    MESSAGES,
    OFFSET_ENTRIES,
    RECORDS,
    WRAPPERS,
    damaged,
)

LIMIT = 1 << 20
LIMITS = RecordLimits(decompressed_bytes=LIMIT)
LOGS = st.lists(BATCHES | MARKERS | MESSAGES | WRAPPERS, min_size=1, max_size=4).map(b"".join)
PAYLOADS = st.lists(RECORDS, max_size=4).map(write_records)

fuzz = settings(max_examples=300)


def value_or_corrupt(read: Callable[[bytes], object], data: bytes) -> None:
    with suppress(CorruptData):
        read(data)


@fuzz
@given(damaged(LOGS))
def test_segments(data: bytes) -> None:
    found = scan_result(data)
    assert 0 <= found.valid_bytes <= len(data)
    assert (found.problem is None) <= (found.valid_bytes == len(data))
    assert scan_result(data[: found.valid_bytes]).batches == found.batches


@fuzz
@given(damaged(LOGS))
def test_records_of_batches_whose_crc_was_not_checked(data: bytes) -> None:
    with suppress(CorruptData):
        for batch in scan(data, check_crc=False):
            with suppress(CorruptData):
                tuple(read_batch_records(data, batch, limits=LIMITS))


@fuzz
@given(damaged(BATCHES | MARKERS))
def test_batches(data: bytes) -> None:
    for read in (check_batch, read_marker, read_first_control_type):
        value_or_corrupt(read, data)
    value_or_corrupt(lambda batch: tuple(read_records(batch, limits=LIMITS)), data)


@fuzz
@given(BATCHES, damaged(PAYLOADS), CODECS, INT32)
def test_payloads_that_are_sealed_but_damaged(batch: bytes, payload: bytes, codec: Codec, count: int) -> None:
    """The CRC is right, so only the reader of records can reject the bytes."""
    header = replace(read_header(batch[:HEADER_SIZE]), attributes=codec, record_count=count)
    sealed = seal(header, compress(codec, payload))
    check_batch(sealed)
    value_or_corrupt(lambda data: tuple(read_records(data, limits=LIMITS)), sealed)


@fuzz
@given(damaged(MESSAGES | WRAPPERS))
def test_legacy_messages(data: bytes) -> None:
    value_or_corrupt(lambda message: tuple(read_legacy_records(message, limits=LIMITS)), data)


@fuzz
@given(st.data(), st.integers(0, 7), st.sampled_from((0, 1, 2)))
def test_compressed_streams_stay_below_the_limit(draw: st.DataObject, codec_id: int, magic: int) -> None:
    originals = st.binary(max_size=300) | st.sampled_from((bytes(LIMIT), b"ab" * LIMIT))
    codec = Codec(codec_id) if codec_id < len(Codec) else Codec.NONE
    data = draw.draw(damaged(originals.map(lambda original: compress(codec, original))))
    with suppress(CorruptData):
        assert len(decompress(codec_id, data, magic=magic, limit=LIMIT)) <= max(LIMIT, len(data))


@fuzz
@given(damaged(st.lists(ENTRIES, max_size=3).map(write_snapshot)))
def test_snapshots(data: bytes) -> None:
    value_or_corrupt(read_snapshot, data)


@fuzz
@given(damaged(st.lists(ABORTED_TXNS, max_size=3).map(write_txn_index)))
def test_transaction_indexes(data: bytes) -> None:
    value_or_corrupt(lambda index: read_txn_index(index, base_offset=5), data)


@fuzz
@given(damaged(st.lists(EPOCH_ENTRIES, max_size=3).map(write_leader_epochs)))
def test_leader_epoch_checkpoints(data: bytes) -> None:
    value_or_corrupt(read_leader_epochs, data)


@fuzz
@given(damaged(st.lists(OFFSET_ENTRIES, max_size=3).map(write_offsets)))
def test_offset_checkpoints(data: bytes) -> None:
    value_or_corrupt(read_offsets, data)


@fuzz
@given(damaged(st.just(b"version: 0\ntopic_id: Q6qNlyVoRc-LPQhzkpBTGA")))
def test_partition_metadata(data: bytes) -> None:
    value_or_corrupt(read_partition_metadata, data)


@fuzz
@given(st.binary(max_size=60))
def test_offset_indexes(data: bytes) -> None:
    value_or_corrupt(lambda index: read_offset_index(index, base_offset=0), data)
    value_or_corrupt(lambda index: read_time_index(index, base_offset=0), data)


@given(st.text(max_size=40))
def test_names(name: str) -> None:
    parse_file_name(name)
    parse_partition_dir(name)
