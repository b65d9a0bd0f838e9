"""What a consumer sees, decided on columns, is what the protocol's own rules say (facts §4)."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.inspect.segment_files import read_segment
from spark_jobs.kafka.formats.control_record import ControlType, read_marker
from spark_jobs.kafka.formats.record_batch import read_header
from spark_jobs.kafka.log.read_committed import visibility, visible_batches
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch, fold
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.visibility import decide
from tests.sample.partition_writer import PartitionWriter

PARTITION = TopicPartition("orders", 0)

kinds = st.sampled_from(["data", "plain", ControlType.COMMIT, ControlType.ABORT])
events = st.lists(st.tuples(st.integers(0, 3), kinds), max_size=40)


def write_log(happened: list[tuple[int, str | ControlType]]) -> PartitionWriter:
    """A log in which producers send and coordinators end transactions, in any order."""
    log = PartitionWriter()
    for producer_id, event in happened:
        if isinstance(event, ControlType):
            log.end(producer_id, event)
        else:
            log.send([b"a", b"b"], producer_id=producer_id, transactional=event == "data")
    return log


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events, st.integers(0, 60))
def test_batches_and_last_stable_offset_are_the_protocols(
    tmp_path: Path, happened: list[tuple[int, str | ControlType]], log_start_offset: int
) -> None:
    log = write_log(happened)
    batches: list[LogBatch] = [(read_header(batch), read_marker(batch)) for batch in log.batches]
    closed, still_open = fold(batches, PARTITION)
    expected = visibility(
        closed,
        undecided=[txn.first_offset for txn in still_open.values()],
        high_watermark=max(log.next_offset, log_start_offset),
        log_start_offset=log_start_offset,
    )
    segment = read_segment(log.write(tmp_path / "orders-0"), fast=False)
    seen = decide(segment.batches, log_start_offset=log_start_offset)
    shown = segment.batches.base_offset[seen.visible(segment.batches, Isolation.READ_COMMITTED)]
    assert shown.tolist() == [header.last_offset - 1 for header in visible_batches(batches, expected)]
    assert seen.last_stable_offset == expected.last_stable_offset


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events)
def test_aborted_transactions_are_those_of_the_index(
    tmp_path: Path, happened: list[tuple[int, str | ControlType]]
) -> None:
    log = write_log(happened)
    found = decide(read_segment(log.write(tmp_path / "orders-0"), fast=False).batches).aborted_txns
    columns = (found.producer_id, found.first_offset, found.last_offset)
    entries = list(zip(*(column.tolist() for column in columns), strict=True))
    assert entries == [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in log.aborted]
