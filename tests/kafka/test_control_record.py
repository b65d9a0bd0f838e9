from struct import pack

import pytest
from hypothesis import given

from spark_jobs.kafka.errors import InvalidRecord
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import (
    ControlType,
    EndTransactionMarker,
    read_control_type,
    read_first_control_type,
    read_marker,
    write_marker,
    write_marker_record,
)
from spark_jobs.kafka.formats.record_batch import TimestampType, check_batch
from spark_jobs.kafka.formats.records import Record
from tests.cases.golden import COMMIT_MARKER, TRANSACTIONAL_BATCH
from tests.kafka.strategies import MARKERS

NOON = 1_700_000_000_000
COMMIT = EndTransactionMarker(control_type=ControlType.COMMIT, coordinator_epoch=5)


def control_batch(*records: Record) -> bytes:
    return build_batch(records=records, base_timestamp=0, producer_id=1, producer_epoch=0, is_control=True)


def keyed(version: int, control_type: int, value: bytes | None = pack(">hi", 0, 5)) -> Record:
    return Record(key=pack(">hh", version, control_type), value=value)


def test_golden_marker_is_written_byte_for_byte_and_read_back() -> None:
    written = write_marker(
        base_offset=10,
        partition_leader_epoch=3,
        timestamp=NOON,
        producer_id=4000,
        producer_epoch=7,
        control_type=ControlType.COMMIT,
        coordinator_epoch=5,
    )
    assert written == COMMIT_MARKER
    assert read_marker(COMMIT_MARKER) == COMMIT


@given(MARKERS)
def test_a_marker_is_a_valid_transactional_control_batch_of_78_bytes(marker: bytes) -> None:
    header = check_batch(marker)
    assert (len(marker), header.attributes, header.base_sequence, header.record_count) == (78, 0x30, -1, 1)
    assert read_marker(marker) is not None


def test_on_a_log_append_time_topic_a_marker_says_so() -> None:
    marker = write_marker(
        base_offset=0,
        partition_leader_epoch=0,
        timestamp=NOON,
        producer_id=1,
        producer_epoch=0,
        control_type=ControlType.ABORT,
        coordinator_epoch=0,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert check_batch(marker).attributes == 0x38


def test_data_and_empty_control_batches_inherit_no_marker() -> None:
    assert read_marker(TRANSACTIONAL_BATCH) is None
    assert read_first_control_type(TRANSACTIONAL_BATCH) is None
    assert read_marker(control_batch()) is None
    assert read_first_control_type(control_batch()) is None


def test_only_the_first_record_of_a_control_batch_counts() -> None:
    second = write_marker_record(control_type=ControlType.ABORT, coordinator_epoch=9)
    assert read_marker(control_batch(keyed(0, 1), second)) == COMMIT


@pytest.mark.parametrize("control_type", [2, 3, 4, 5, 6])
def test_kraft_s_own_control_records_are_no_markers(control_type: int) -> None:
    batch = control_batch(keyed(0, control_type, value=b""))
    assert read_marker(batch) is None
    assert read_first_control_type(batch) is ControlType(control_type)


@pytest.mark.parametrize("control_type", [7, 32767, -1, -2])
def test_unknown_control_types_are_skipped_not_guessed(control_type: int) -> None:
    batch = control_batch(keyed(0, control_type))
    assert read_marker(batch) is None
    assert read_first_control_type(batch) is ControlType.UNKNOWN


def test_later_versions_of_key_and_value_are_read_as_the_first() -> None:
    assert read_marker(control_batch(keyed(3, 1, value=pack(">hi", 2, 5) + b"new"))) == COMMIT
    assert read_control_type(pack(">hh", 1, 0) + b"new") is ControlType.ABORT


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(Record(key=None, value=b""), id="no key"),
        pytest.param(Record(key=b"\0\0\0", value=b""), id="a short key"),
        pytest.param(keyed(-1, 1), id="a negative key version"),
        pytest.param(keyed(0, 1, value=pack(">hi", -1, 5)), id="a negative marker version"),
        pytest.param(keyed(0, 1, value=b"\0\0\0"), id="a short marker"),
        pytest.param(keyed(0, 0, value=None), id="a null marker"),
    ],
)
def test_a_malformed_marker_is_an_invalid_record(record: Record) -> None:
    with pytest.raises(InvalidRecord) as raised:
        read_marker(control_batch(record), source="3.log", position=90)
    assert (raised.value.source, raised.value.position) == ("3.log", 90)
