"""A topic's files: as equal as pieces allow, none above what a file may hold."""

from dataclasses import replace

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import PlannedSegment
from spark_jobs.pipeline.materialise.job import PartitionPlan, RowChunk
from spark_jobs.pipeline.materialise.step import SMALLEST_FILE, divide, number_of_files, plan_files

MIB = 2**20
PLAN = PartitionPlan(partition=TopicPartition("orders", 0), first_offset=0, end_offset=1)


def chunk(size: int) -> RowChunk:
    return RowChunk(
        held="", first_row=0, stop_row=1, batches=1, records=1, bytes=size, first_object=0, last_object=0
    )


def sizes(pieces: list[int], file_bytes: int = 256 * MIB) -> list[int]:
    files = divide([(PLAN, chunk(size)) for size in pieces], file_bytes)
    return [sum(each.bytes for _, each in file) for file in files]


def test_what_counts_of_a_segment_is_what_is_read_not_what_is_shown() -> None:
    segment = PlannedSegment(base_offset=0, leader_epoch=0, size=40 * MIB, digest="", first_row=0, stop_row=1)
    pieces = [(PLAN, replace(chunk(shown), segment=segment)) for shown in (0, 40 * MIB, MIB, 0)]

    assert [len(file) for file in divide(pieces, 256 * MIB)] == [1, 1, 1, 1]


def test_small_chunks_of_one_file_are_read_as_one() -> None:
    chunks = [replace(chunk(MIB), first_row=row, stop_row=row + 2, last_object=row) for row in (0, 3, 7)]

    [file] = plan_files([(PLAN, chunks)], file_bytes=256 * MIB)

    [[joined]] = [share.chunks for share in file.shares]
    assert (joined.first_row, joined.stop_row) == (0, 9)
    assert (joined.bytes, joined.batches, joined.records) == (3 * MIB, 3, 3)
    assert (joined.first_object, joined.last_object) == (0, 7)


def test_no_file_is_a_rest() -> None:
    assert sizes([8 * MIB - 1] * 120) == [15 * (8 * MIB - 1)] * 8


def test_a_small_topic_is_one_file() -> None:
    assert sizes([MIB] * 20) == [20 * MIB]


def test_nothing_to_publish_is_no_file() -> None:
    assert sizes([]) == []


def test_pieces_stay_whole_and_in_order_whatever_their_sizes() -> None:
    pieces = [1, 90 * MIB, 3, 70 * MIB, 5, 6, 40 * MIB]

    assert sum(sizes(pieces)) == sum(pieces)
    assert len(sizes(pieces)) <= number_of_files(sum(pieces), 256 * MIB)


def test_a_large_topic_has_as_many_files_as_their_limit_asks_for() -> None:
    assert number_of_files(96 * 256 * MIB, 256 * MIB) == 96
    assert number_of_files(96 * 256 * MIB + 1, 256 * MIB) == 104
    assert number_of_files(SMALLEST_FILE, 256 * MIB) == 1
