"""A leader's checks of a batch before its producer state (facts §2.3, §2.11)."""

from dataclasses import replace

import pytest

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    TIMESTAMP_TYPE_FLAG,
    Codec,
    TimestampType,
    check_batch,
    read_header,
)
from spark_jobs.kafka.formats.records import Record, read_records
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.log_validator import (
    RejectedBatch,
    ValidatedBatch,
    check_produce_request,
    validate,
)
from spark_jobs.sample.broker.partition_log import AppendResult, PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import commit_batch, data_batch
from tests.kafka.log_steps import NOW, log_bytes

DEFAULTS = PartitionConfig()
COMPACTED = PartitionConfig(is_compacted=True)


def changed(batch: bytes, **fields: int) -> bytes:
    """`batch` with changed header fields, and a valid checksum."""
    return seal(replace(read_header(batch), **fields), batch[HEADER_SIZE:])


def damaged(batch: bytes) -> bytes:
    """`batch` with its last bit flipped."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def appended(batch: bytes, config: PartitionConfig = DEFAULTS) -> AppendResult:
    return PartitionLog(config, now=NOW).append(batch, now=NOW)


def validated(
    batch: bytes, config: PartitionConfig, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ValidatedBatch | RejectedBatch:
    return validate(batch, config=config, origin=origin, offset=5, partition_leader_epoch=2, now=NOW)


@pytest.mark.parametrize(
    ("batch", "knows_log_start"),
    [
        pytest.param(changed(data_batch(), record_count=0), True, id="row-120 no record, one offset"),
        pytest.param(
            changed(data_batch(), record_count=0, last_offset_delta=-1),
            True,
            id="row-120 no record, no offset",
        ),
        pytest.param(changed(data_batch(), record_count=3), True, id="row-121 count above the offset range"),
        pytest.param(
            changed(data_batch(count=2), last_offset_delta=4), True, id="row-121 count below the offset range"
        ),
        pytest.param(
            changed(data_batch(), record_count=3, last_offset_delta=2),
            True,
            id="row-121 count above the records",
        ),
        pytest.param(
            changed(data_batch(count=3), record_count=1, last_offset_delta=0),
            True,
            id="row-121 records left over",
        ),
        pytest.param(data_batch(seq=0) + data_batch(seq=1), False, id="row-122 two batches"),
        pytest.param(data_batch(codec=Codec.GZIP) * 2, False, id="row-122 two compressed batches"),
        pytest.param(changed(data_batch(), attributes=CONTROL_FLAG), True, id="row-123 a control batch"),
        pytest.param(data_batch(seq=-1), True, id="a producer id without sequence"),
        pytest.param(data_batch(at=7), True, id="a base offset"),
        pytest.param(changed(data_batch(), magic=1), False, id="an older magic"),
        pytest.param(data_batch()[:-1], False, id="a torn batch"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_invalid_records(batch: bytes, knows_log_start: bool) -> None:
    result = appended(batch)
    assert (result.decision.verdict, result.kafka_error) == (
        Verdict.INVALID_RECORD,
        KafkaError.INVALID_RECORD,
    )
    assert (result.base_offset, result.log_append_time) == (-1, -1)
    assert result.log_start_offset == (0 if knows_log_start else -1)


def test_row_124_a_control_batch_is_never_compressed() -> None:
    config = PartitionConfig(compression_codec=Codec.SNAPPY)
    marker, data = commit_batch(), data_batch(count=3)
    stored = validated(marker, config, AppendOrigin.COORDINATOR)
    assert isinstance(stored, ValidatedBatch)
    assert stored.batch[16:] == marker[16:]
    recompressed = validated(data, config)
    assert isinstance(recompressed, ValidatedBatch)
    assert check_batch(recompressed.batch).codec_id == Codec.SNAPPY
    assert [r.value for r in read_records(recompressed.batch)] == [r.value for r in read_records(data)]
    assert recompressed.header.base_sequence == 0


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(data_batch(txn=True), id="row-125 transactional"),
        pytest.param(data_batch(), id="row-125 idempotent"),
    ],
)
def test_older_message_formats_have_no_room_for_producers(batch: bytes) -> None:
    refused = validate(
        batch,
        config=DEFAULTS,
        origin=AppendOrigin.CLIENT,
        offset=0,
        partition_leader_epoch=0,
        now=NOW,
        to_magic=1,
    )
    assert refused == RejectedBatch(kafka_error=KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT)


@pytest.mark.parametrize(
    ("timestamp", "is_valid"),
    [(NOW + 3_600_000, True), (NOW + 3_600_001, False), (-1, True), (0, True), (NOW - 10**12, True)],
)
def test_row_126_a_create_time_must_not_be_far_ahead(timestamp: int, is_valid: bool) -> None:
    result = appended(data_batch(ts=timestamp))
    assert result.kafka_error is (KafkaError.NONE if is_valid else KafkaError.INVALID_TIMESTAMP)
    assert [error.batch_index for error in result.record_errors] == ([] if is_valid else [0])


def test_row_126_a_create_time_must_not_be_far_back_where_that_is_limited() -> None:
    config = PartitionConfig(message_timestamp_before_max_ms=1000)
    assert appended(data_batch(ts=NOW - 1000), config).kafka_error is KafkaError.NONE
    assert appended(data_batch(ts=NOW - 1001), config).kafka_error is KafkaError.INVALID_TIMESTAMP


def test_row_126_a_client_may_not_claim_log_append_time_on_such_a_topic() -> None:
    config = PartitionConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    claimed = changed(data_batch(), attributes=TIMESTAMP_TYPE_FLAG)
    assert appended(claimed, config).kafka_error is KafkaError.INVALID_TIMESTAMP
    assert appended(data_batch(), config).kafka_error is KafkaError.NONE


def test_on_a_create_time_topic_that_claim_is_quietly_undone() -> None:
    log = PartitionLog(now=NOW)
    log.append(changed(data_batch(), attributes=TIMESTAMP_TYPE_FLAG), now=NOW)
    header = check_batch(log_bytes(log))
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.CREATE_TIME, T0)


def test_row_127_a_compacted_topic_wants_keys() -> None:
    batch = build_batch(
        records=[Record(key=b"k"), Record(offset_delta=1), Record(offset_delta=2)],
        base_timestamp=T0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    result = appended(batch, COMPACTED)
    assert result.kafka_error is KafkaError.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1, 2]
    assert appended(data_batch(), COMPACTED).kafka_error is KafkaError.NONE


def test_the_largest_timestamp_is_stored_as_found_not_as_claimed() -> None:
    log = PartitionLog(now=NOW)
    log.append(changed(data_batch(), max_timestamp=T0 + 86_400_000), now=NOW)
    assert check_batch(log_bytes(log)).max_timestamp == T0


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (damaged(data_batch()), KafkaError.CORRUPT_MESSAGE),
        (data_batch()[:16] + b"\x03" + data_batch()[17:], KafkaError.CORRUPT_MESSAGE),
        (changed(data_batch(), attributes=5), KafkaError.UNKNOWN_SERVER_ERROR),
        (changed(data_batch(), attributes=Codec.GZIP), KafkaError.UNKNOWN_SERVER_ERROR),
    ],
    ids=["checksum", "magic 3", "codec 5", "gzip that is none"],
)
def test_corrupt_batches(batch: bytes, error: KafkaError) -> None:
    result = appended(batch)
    assert (result.decision.verdict, result.kafka_error) == (Verdict.CORRUPT, error)
    assert result.log_start_offset == (-1 if error is KafkaError.CORRUPT_MESSAGE else 0)


def test_a_corrupt_resend_is_corrupt_and_not_a_duplicate() -> None:
    log = PartitionLog(now=NOW)
    log.append(data_batch(), now=NOW)
    assert log.append(damaged(data_batch()), now=NOW).decision.verdict is Verdict.CORRUPT


def test_a_batch_over_the_limit_is_refused_before_the_log_is_asked() -> None:
    result = appended(data_batch(value=b"x" * 500), PartitionConfig(max_message_bytes=500))
    assert (result.kafka_error, result.log_start_offset) == (KafkaError.MESSAGE_TOO_LARGE, -1)


@pytest.mark.parametrize("length", [1, 11])
def test_less_than_a_size_after_a_batch_is_ignored(length: int) -> None:
    log = PartitionLog(now=NOW)
    assert log.append(data_batch() + bytes(length), now=NOW).base_offset == 0
    assert log_bytes(log) == data_batch()


@pytest.mark.parametrize("length", [12, 13, 16, 17, 40])
def test_a_size_after_a_batch_must_be_possible(length: int) -> None:
    assert appended(data_batch() + bytes(length)).kafka_error is KafkaError.CORRUPT_MESSAGE
    torn = (bytes(8) + (1000).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(40))[:length]
    assert appended(data_batch() + torn).kafka_error is KafkaError.NONE


def test_a_request_is_refused_for_what_follows_its_batch() -> None:
    zeros = check_produce_request(data_batch() + bytes(20))
    assert zeros is not None
    assert zeros.kafka_error is KafkaError.CORRUPT_MESSAGE


def test_offsets_inside_a_compressed_batch_must_count_up() -> None:
    records = [Record(offset_delta=0), Record(offset_delta=2)]
    gap = build_batch(records=records, base_timestamp=T0, last_offset_delta=1, codec=Codec.LZ4)
    assert appended(gap).kafka_error is KafkaError.UNKNOWN_SERVER_ERROR
    recompressing = PartitionConfig(compression_codec=Codec.ZSTD)
    assert appended(gap, recompressing).kafka_error is KafkaError.INVALID_RECORD


def test_a_coordinators_batch_is_not_held_to_a_clients_header() -> None:
    stored = validated(commit_batch(), DEFAULTS, AppendOrigin.COORDINATOR)
    assert isinstance(stored, ValidatedBatch)
    assert (stored.header.base_offset, stored.header.partition_leader_epoch) == (5, 2)
