"""Leader epochs grow where a log is rewritten, and nowhere else."""

from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.lake.manifest import Truncation
from spark_jobs.lake.states import PartitionState
from spark_jobs.pipeline.admit.worker import Lineage

STATE = PartitionState(end_offset=10, leader_epochs=(EpochEntry(epoch=0, start_offset=0),))


def _old(
    *segments: tuple[int, str], leader_epoch: int = 1, epochs: tuple[tuple[int, int], ...] = ((0, 0),)
) -> Truncation:
    """A log that another run has written."""
    return Truncation(
        topic="orders", partition=0, leader_epoch=leader_epoch, epochs=epochs, segments=tuple(segments)
    )


def _epochs(lineage: Lineage, end_offset: int) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in lineage.finish(end_offset)]


def test_a_first_run_of_a_date_continues_under_its_epoch() -> None:
    lineage = Lineage(STATE, None)
    assert (lineage.epoch_at(10), lineage.assign(10, "a")) == (0, 0)
    assert _epochs(lineage, 20) == [(0, 0)]


def test_the_same_segments_keep_their_epoch() -> None:
    lineage = Lineage(STATE, _old((10, "a"), (15, "b")))
    assert [lineage.assign(10, "a"), lineage.assign(15, "b")] == [0, 0]
    assert _epochs(lineage, 20) == [(0, 0)]


def test_from_the_first_segment_that_differs_on_a_new_epoch_writes() -> None:
    lineage = Lineage(STATE, _old((10, "a"), (15, "b"), (18, "c")))
    assert [lineage.assign(10, "a"), lineage.assign(15, "x"), lineage.assign(18, "c")] == [0, 1, 1]
    assert lineage.epoch_at(18) == 1
    assert _epochs(lineage, 20) == [(0, 0), (1, 15)]


def test_a_longer_log_begins_a_new_epoch_where_the_old_one_ended() -> None:
    lineage = Lineage(STATE, _old((10, "a")))
    assert [lineage.assign(10, "a"), lineage.assign(15, "b")] == [0, 1]
    assert _epochs(lineage, 20) == [(0, 0), (1, 15)]


def test_a_shorter_log_begins_a_new_epoch_at_its_end_for_the_next_writer() -> None:
    lineage = Lineage(STATE, _old((10, "a"), (15, "b")))
    assert lineage.assign(10, "a") == 0
    assert _epochs(lineage, 15) == [(0, 0), (1, 15)]


def test_a_log_that_was_rewritten_once_keeps_the_epoch_of_its_rewriting() -> None:
    lineage = Lineage(STATE, _old((10, "a"), (15, "b"), leader_epoch=2, epochs=((0, 0), (1, 15))))
    assert [lineage.epoch_at(10), lineage.assign(10, "a")] == [0, 0]
    assert [lineage.epoch_at(15), lineage.assign(15, "b")] == [1, 1]
    assert _epochs(lineage, 20) == [(0, 0), (1, 15)]


def test_an_epoch_that_the_run_starts_with_is_new_already() -> None:
    rewritten = PartitionState(end_offset=10, leader_epochs=(EpochEntry(epoch=1, start_offset=8),))
    lineage = Lineage(rewritten, _old((10, "a")))
    assert (lineage.epoch_at(10), lineage.assign(10, "x")) == (1, 1)
    assert _epochs(lineage, 20) == [(1, 8)]


def test_a_first_run_that_is_rewritten_has_the_new_epoch_alone() -> None:
    first = PartitionState(leader_epochs=(EpochEntry(epoch=0, start_offset=0),))
    lineage = Lineage(first, _old((0, "a")))
    assert lineage.assign(0, "x") == 1
    assert _epochs(lineage, 5) == [(1, 0)]
