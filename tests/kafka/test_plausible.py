"""What looks like a batch: every batch that Kafka's own builders make, and little else."""

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.log.segment import looks_like_batch

RECORDS = st.builds(
    Record, offset_delta=st.just(0), timestamp_delta=st.just(0), key=st.none(), value=st.binary(max_size=9)
)
IDS = st.integers(-1, 2**31 - 1)


@given(
    batch=st.builds(
        build_batch,
        records=st.lists(RECORDS, max_size=2),
        base_offset=st.integers(0, 2**63 - 1),
        base_timestamp=st.integers(-1, 2**62),
        partition_leader_epoch=IDS,
        producer_id=IDS,
        producer_epoch=st.integers(-1, 2**15 - 1),
        base_sequence=IDS,
        codec=st.sampled_from(Codec),
        is_transactional=st.booleans(),
        is_control=st.booleans(),
    )
)
def test_a_batch_with_values_that_kafka_writes_looks_like_one(batch: bytes) -> None:
    assert looks_like_batch(batch[:HEADER_SIZE])


def test_a_marker_looks_like_a_batch() -> None:
    marker = write_marker(
        base_offset=1,
        partition_leader_epoch=0,
        timestamp=9,
        producer_id=7,
        producer_epoch=0,
        control_type=ControlType.ABORT,
        coordinator_epoch=0,
    )

    assert looks_like_batch(marker[:HEADER_SIZE])


@given(magic=st.sampled_from((0, 1)), value=st.none() | st.binary(max_size=100))
def test_a_legacy_message_looks_like_a_batch_even_if_shorter_than_a_header(magic: int, value: bytes) -> None:
    message = write_message(offset=5, key=None, value=value, magic=magic, timestamp=9)

    assert looks_like_batch(message[:HEADER_SIZE])


@given(st.binary(max_size=17))
def test_less_than_a_prefix_looks_like_nothing(head: bytes) -> None:
    assert not looks_like_batch(head)


def test_zeros_and_text_do_not_look_like_batches() -> None:
    assert not looks_like_batch(bytes(HEADER_SIZE))
    assert not looks_like_batch(b"2024-05-01 12:00:00 INFO something happened, and then something else")


def test_a_header_cut_short_does_not_look_like_a_batch() -> None:
    batch = build_batch(records=[], base_timestamp=0)

    assert not looks_like_batch(batch[: HEADER_SIZE - 1])
