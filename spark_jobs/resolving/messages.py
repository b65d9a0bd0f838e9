"""What people should know about a run's transactions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from spark_jobs.protocol.copy_reach import CopyReach
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.resolving.close_partitions import ClosedPartition
from spark_jobs.resolving.conclude import Concluded

_TROUBLES = {
    Outcome.HANGING: "no coordinator will end them; `onceover transactions` shows how to check and end them",
    Outcome.CONFLICT: "markers contradict the coordinator, or each other",
    Outcome.AMBIGUOUS: "the logs do not show how they ended",
}
_COPY_ORDER = "copy the data first and __transaction_state last"
MOST_TOPICS = 5
LAST_SECOND = 253_402_300_799
"""The last one of the year 9999: what a broken clock wrote may be later."""


def messages(
    concluded: Sequence[Concluded],
    closed: Iterable[ClosedPartition],
    coordinators: Sequence[int],
    *,
    reach: CopyReach,
    unmarked_topics: Sequence[str],
) -> Iterator[str]:
    """Sentences for the run's report; `coordinators` are its partitions of __transaction_state.

    `unmarked_topics` are those that are captured without markers.
    """
    yield from _of_coordinators(coordinators)
    yield from _of_skew(concluded, reach)
    yield from _of_captures(concluded, unmarked_topics, has_coordinator_log=bool(coordinators))
    yield from _of_outcomes(concluded)
    for partition in closed:
        yield from partition.problems


def _of_coordinators(coordinators: Sequence[int]) -> Iterator[str]:
    if not coordinators:
        yield "there is no copy of the coordinator's log (__transaction_state): markers alone decide"
    elif missing := sorted({*range(max(coordinators) + 1)} - {*coordinators}):
        yield (
            f"partitions {', '.join(map(str, missing))} of __transaction_state are missing: "
            "open transactions that they know are held until a copy has them"
        )


def _of_skew(concluded: Iterable[Concluded], reach: CopyReach) -> Iterator[str]:
    """Whether the coordinator's copy is older than the data: each marker is followed by a record of it."""
    recorded = max(reach.recorded_until.values(), default=None)
    marked = max(reach.marked_until.values(), default=None)
    if recorded is not None and marked is not None and marked > recorded + reach.clock_skew_ms:
        yield (
            "the copy of __transaction_state is older than the data: its newest record is of "
            f"{_at(recorded)}, the newest marker of {_at(marked)}, {_span(marked - recorded)} later; "
            f"{_COPY_ORDER}"
        )
    behind = sum(each.behind for each in concluded)
    if behind:
        skew_ms = max(each.skew_ms for each in concluded)
        by = f" by up to {_span(skew_ms)}, as far as the copies show" if skew_ms else ""
        yield (
            f"{behind} open transactions cannot be decided, because the coordinator's copy is older than the "
            f"data{by}: they are held until a newer copy shows their end; {_COPY_ORDER}"
        )


def _of_captures(
    concluded: Iterable[Concluded], topics: Sequence[str], *, has_coordinator_log: bool
) -> Iterator[str]:
    """What to add to a capture from which outcomes cannot be known."""
    count = sum(each.unknowable for each in concluded)
    if not count:
        return
    listed = ", ".join(topics[:MOST_TOPICS]) + (", ..." if len(topics) > MOST_TOPICS else "")
    remedies = [
        "the markers (capture what coordinators write, too, and set markers: true)",
        "a broker's log of these topics (a source of kind broker-log instead of the capture)",
    ]
    if not has_coordinator_log:
        remedies.insert(0, "the coordinator's log (a copy of __transaction_state, kind broker-log)")
    yield (
        f"the outcomes of {count} transactions cannot be known from captures without markers ({listed}): "
        "producers send no markers, and clients before transaction.version 2 use one epoch for many "
        f"transactions; their records are held. Add one of: {'; '.join(remedies)}"
    )


def _at(timestamp: int) -> str:
    """A time as ISO 8601, to the second."""
    return datetime.fromtimestamp(min(max(timestamp // 1000, 0), LAST_SECOND), UTC).isoformat()


def _span(duration_ms: int) -> str:
    return str(timedelta(seconds=min(-(-duration_ms // 1000), LAST_SECOND)))


def _of_outcomes(concluded: Iterable[Concluded]) -> Iterator[str]:
    counts: Counter[Outcome] = Counter()
    timed_out = 0
    for each in concluded:
        counts.update(each.outcomes)
        timed_out += each.timed_out
    if timed_out:
        yield (
            f"{timed_out} transactions are taken for aborted: their timeout had passed when the "
            "coordinator's log was copied"
        )
    for outcome, trouble in _TROUBLES.items():
        if counts[outcome]:
            yield f"the records of {counts[outcome]} {outcome} transactions are held: {trouble}"
