"""A part that is read again from a known boundary is written beside the first attempt, not over it."""

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.pipeline.index.job import Bin, Copy, Piece

COPY = Copy(partition=TopicPartition("orders", 0), number=0, source="gateway", directory="")


def _part(start: int, boundary: int | None, length: int = 100) -> Bin:
    piece = Piece(
        object_order=1,
        store="/lake",
        key="a",
        version="",
        size=300,
        start=start,
        stop=start + length,
        boundary=boundary,
    )
    return Bin(copy=COPY, pieces=(piece,))


def test_every_boundary_has_a_file_of_its_own() -> None:
    guessed = _part(100, None)

    assert len({guessed.file, guessed.begin_at(120).file, guessed.begin_at(130).file}) == 3
    assert guessed.place == guessed.begin_at(120).place


def test_parts_of_another_length_have_files_of_their_own() -> None:
    assert len({_part(0, 0, length=length).file for length in (100, 200, 300)}) == 3


def test_files_of_one_copy_sort_in_arrival_order() -> None:
    files = [_part(0, 0).file, _part(100, None).begin_at(120).file, _part(200, None).file]

    assert files == sorted(files)
