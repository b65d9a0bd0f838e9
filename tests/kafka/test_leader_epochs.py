"""The leader-epoch cache (facts §1.11)."""

import pytest

from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs


def epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(entries=tuple(EpochEntry(epoch=epoch, start_offset=start) for epoch, start in pairs))


@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        ([], (2, 6), [(2, 6)]),
        ([(2, 6)], (2, 9), [(2, 6)]),
        ([(2, 6)], (2, 4), [(2, 4)]),
        ([(2, 6)], (3, 9), [(2, 6), (3, 9)]),
        ([(2, 6), (3, 9)], (3, 7), [(2, 6), (3, 7)]),
        ([(2, 6), (3, 9)], (4, 9), [(2, 6), (4, 9)]),
        ([(2, 6), (3, 9)], (2, 12), [(2, 12)]),
        ([(2, 6), (3, 9)], (1, 5), [(1, 5)]),
    ],
    ids=[
        "first",
        "same epoch",
        "same epoch, earlier",
        "next",
        "moved back",
        "same offset",
        "older",
        "oldest",
    ],
)
def test_assign(
    before: list[tuple[int, int]], assigned: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    assert epochs(*before).assign(*assigned) == epochs(*after)


KNOWN = epochs((2, 6), (3, 8), (5, 11))


def test_truncating_the_end_drops_epochs_that_begin_there_or_later() -> None:
    assert KNOWN.truncate_from_end(8) == epochs((2, 6))
    assert KNOWN.truncate_from_end(9) == epochs((2, 6), (3, 8))


def test_truncating_the_start_lets_the_epoch_that_reaches_over_begin_there() -> None:
    assert KNOWN.truncate_from_start(9) == epochs((3, 9), (5, 11))
    assert KNOWN.truncate_from_start(8) == epochs((3, 8), (5, 11))
    assert KNOWN.truncate_from_start(5) == KNOWN


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (5, (5, 20)), (3, (3, 11)), (4, (3, 11)), (2, (2, 8)), (1, (1, 6)), (6, (-1, -1))],
)
def test_where_an_epoch_ends(epoch: int, answer: tuple[int, int]) -> None:
    assert KNOWN.end_offset_for(epoch, 20) == answer
