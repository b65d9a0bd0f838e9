"""What people should know about a night's transactions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.resolving.carry_job import CarriedPartition
from spark_jobs.resolving.conclude import Concluded

_TROUBLES = {
    Outcome.HANGING: "nobody will end them by themselves",
    Outcome.CONFLICT: "markers contradict the coordinator, or each other",
    Outcome.AMBIGUOUS: "what became of them cannot be told",
}


def messages(
    concluded: Iterable[Concluded], carried: Iterable[CarriedPartition], coordinators: Sequence[int]
) -> Iterator[str]:
    """Sentences for the run's report; `coordinators` are its partitions of __transaction_state."""
    if not coordinators:
        yield "there is no copy of the coordinator's log (__transaction_state): markers alone decide"
    elif missing := sorted({*range(max(coordinators) + 1)} - {*coordinators}):
        yield (
            f"partitions {', '.join(map(str, missing))} of __transaction_state are missing: "
            "transactions that they know are taken for hanging"
        )
    counts: Counter[Outcome] = Counter()
    timed_out = 0
    for each in concluded:
        counts.update(each.outcomes)
        timed_out += each.timed_out
    if timed_out:
        yield f"{timed_out} transactions were taken for aborted: their timeout had passed at the run's time"
    for outcome, trouble in _TROUBLES.items():
        if counts[outcome]:
            yield f"the records of {counts[outcome]} {outcome} transactions are held: {trouble}"
    for partition in carried:
        yield from partition.problems
