"""The remarks of `resolve` for the run's report."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.pipeline.resolve.close_partitions import ClosedPartition
from spark_jobs.pipeline.resolve.conclude import OutcomeCounts

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
    counted: OutcomeCounts,
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
    yield from _of_skew(counted, reach)
    yield from _of_captures(counted, unmarked_topics, has_coordinator_log=bool(coordinators))
    yield from _of_outcomes(counted)
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


def _of_skew(counted: OutcomeCounts, reach: CopyReach) -> Iterator[str]:
    """Whether the coordinator's copy is older than the data: each marker is followed by a record of it."""
    recorded = max(reach.recorded_until.values(), default=None)
    marked = max(reach.marked_until.values(), default=None)
    if recorded is not None and marked is not None and marked > recorded + reach.clock_skew_ms:
        yield (
            "the copy of __transaction_state is older than the data: its newest record is of "
            f"{_at(recorded)}, the newest marker of {_at(marked)}, {_span(marked - recorded)} later; "
            f"{_COPY_ORDER}"
        )
    if counted.behind:
        skew_ms = counted.skew_ms
        by = f" by up to {_span(skew_ms)}, as far as the copies show" if skew_ms else ""
        yield (
            f"{counted.behind} open transactions cannot be decided, because the coordinator's copy is older "
            f"than the data{by}: they are held until a newer copy shows their end; {_COPY_ORDER}"
        )


def _of_captures(
    counted: OutcomeCounts, topics: Sequence[str], *, has_coordinator_log: bool
) -> Iterator[str]:
    """What to add to a capture from which outcomes cannot be known."""
    if not counted.unknowable:
        return
    listed = ", ".join(topics[:MOST_TOPICS]) + (", ..." if len(topics) > MOST_TOPICS else "")
    remedies = [
        "the markers (capture what coordinators write, too, and set markers: true)",
        "a broker's log of these topics (a source of kind broker-log instead of the capture)",
    ]
    if not has_coordinator_log:
        remedies.insert(0, "the coordinator's log (a copy of __transaction_state, kind broker-log)")
    yield (
        f"the outcomes of {counted.unknowable} transactions cannot be known from captures without markers "
        f"({listed}): producers send no markers, and clients before transaction.version 2 use one epoch for "
        f"many transactions; their records are held. Add one of: {'; '.join(remedies)}"
    )


def _at(timestamp: int) -> str:
    """A time as ISO 8601, to the second."""
    return datetime.fromtimestamp(min(max(timestamp // 1000, 0), LAST_SECOND), UTC).isoformat()


def _span(duration_ms: int) -> str:
    return str(timedelta(seconds=min(-(-duration_ms // 1000), LAST_SECOND)))


def _of_outcomes(counted: OutcomeCounts) -> Iterator[str]:
    if counted.timed_out:
        yield (
            f"{counted.timed_out} transactions are taken for aborted: their timeout had passed when the "
            "coordinator's log was copied"
        )
    for outcome, trouble in _TROUBLES.items():
        if counted.outcomes[outcome]:
            yield f"the records of {counted.outcomes[outcome]} {outcome} transactions are held: {trouble}"
