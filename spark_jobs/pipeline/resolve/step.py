"""`resolve`: one outcome for every transaction, and how far each partition can be published.

Transactions are small rows. Spark's shuffle brings them together with the coordinators' logs, by producer,
and brings their outcomes back to their partitions. The driver sees partitions, never transactions; only a run
too small to schedule does it resolve itself.

Read on in: `phases` (the driver's side); then, in the order of the phases, what Spark tasks do: `gather`,
`join`, `conclude` with `cuts`, `close_partitions` with `held_batches`. Their values are in `run_partitions`,
`parts` and `transaction_rows`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, islice

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import REPLICATION_OFFSET_CHECKPOINT
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.folds import (
    FoldName,
    check_resolved,
    digest_of_folds,
    folds_before,
    put_folds,
    resolved_before,
)
from spark_jobs.lake.inherited_rows import InheritedObject, manifest_entry
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.states import read_states
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.coordinator_logs.folding import read_timelines
from spark_jobs.pipeline.resolve.close_partitions import ClosedPartition
from spark_jobs.pipeline.resolve.conclude import OutcomeCounts
from spark_jobs.pipeline.resolve.parts import bucket_count
from spark_jobs.pipeline.resolve.phases import CloseJobs, Phases
from spark_jobs.pipeline.resolve.run_partitions import partitions_of_run, partitions_table
from spark_jobs.sources.broker_files import copied_partitions, read_checkpoints
from spark_jobs.sources.partitions import run_partitions
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import INHERITED_OBJECTS, FoldKind

MOST_MESSAGES = 20


def run(context: RunContext) -> StepResult:
    """Resolve the run's transactions, and those that earlier runs could not."""
    lake, state_in = context.lake, context.folder.inputs.state_in
    check_resolved(lake, context.chain, state_in)
    before = folds_before(lake, context.chain, state_in)
    phases = _phases(context)
    newest_markers = phases.newest_markers()
    reach = phases.reach(newest_markers)
    joined = phases.join(reach)
    cut = phases.cut(joined)
    conclusion = phases.conclusion(joined, cut)
    concluded, closed = phases.close(conclusion, _close_jobs(context, before))
    folds = {**before, **phases.prune(conclusion), **dict(_folds(closed))}
    phases.clear()
    counted = sum((each.counted for each in concluded), OutcomeCounts(outcomes=Counter()))
    partitions = partitions_table(phases.partitions, closed, cut.decided, newest_markers)
    return StepResult(
        outputs=(
            put_table(lake, context.folder.key(Step.RESOLVE), RESOLVED_PARTITIONS.file, partitions),
            put_folds(context.folder, folds),
            *(each.output for each in concluded),
            *chain.from_iterable(map(_outputs, closed)),
        ),
        counts=_counts(counted, closed),
        state=digest_of_folds(folds),
        messages=tuple(
            islice(chain(phases.copied.problems, _messages(phases, reach, counted, closed)), MOST_MESSAGES)
        ),
    )


def _messages(
    phases: Phases, reach: CopyReach, counted: OutcomeCounts, closed: Iterable[ClosedPartition]
) -> Iterator[str]:
    unmarked = dict.fromkeys(each.partition.topic for each in phases.partitions if not each.has_markers)
    return messages(
        counted,
        closed,
        phases.timelines.partitions,
        reach=reach,
        unmarked_topics=tuple(unmarked),
    )


def _phases(context: RunContext) -> Phases:
    found_now = run_partitions(context.folder, context.manifest, context.settings)
    admitted = read_table(context.lake, context.folder.key(Step.ADMIT, ADMITTED_PARTITIONS.file))
    partitions = partitions_of_run(
        read_states(context.lake, context.folder.run_id, Step.ADMIT),
        admitted=admitted.to_pylist(),
        before=resolved_before(context.lake, context.chain, context.folder.inputs.state_in),
        entries={each.partition: each.entries for each in found_now},
        settings=context.settings,
    )
    timelines = read_timelines(context.folder)
    return Phases(
        run=context,
        partitions=partitions,
        timelines=timelines,
        buckets=bucket_count(sum(each.rows for each in found_now)),
        copied=copied_partitions(context.manifest.entries, StagedObjects(context.settings)),
    )


def _close_jobs(context: RunContext, before: dict[FoldName, str]) -> CloseJobs:
    return CloseJobs(
        run=context,
        inherited_objects=_inherited_objects(context),
        high_watermarks=read_checkpoints(
            context.manifest, StagedObjects(context.settings), REPLICATION_OFFSET_CHECKPOINT
        ),
        before=before,
    )


def _inherited_objects(context: RunContext) -> dict[TopicPartition, tuple[ManifestEntry, ...]]:
    """Objects of earlier runs that this run's batches may be in, because they were parked there."""
    found: dict[TopicPartition, tuple[ManifestEntry, ...]] = {}
    for row in read_table(context.lake, context.folder.key(Step.REBUILD, INHERITED_OBJECTS.file)).to_pylist():
        order, partition = row.pop("object_order"), TopicPartition(row.pop("topic"), row.pop("partition"))
        entry = manifest_entry(
            InheritedObject(**row), order=order, topic=partition.topic, partition=partition.partition
        )
        found[partition] = (*found.get(partition, ()), entry)
    return found


def _folds(closed: Iterable[ClosedPartition]) -> Iterator[tuple[FoldName, str]]:
    for each in closed:
        yield (FoldKind.HELD_STATE, each.partition), each.held_state
        if each.offsets:
            yield (FoldKind.GROUP_OFFSETS, each.partition), each.offsets


def _outputs(each: ClosedPartition) -> Iterator[OutputFile]:
    yield from (output for output in (each.outcomes, each.consumer_offsets) if output is not None)


def _counts(counted: OutcomeCounts, closed: Iterable[ClosedPartition]) -> dict[str, int]:
    return {
        "transactions": counted.outcomes.total(),
        **{outcome.value: counted.outcomes[outcome] for outcome in Outcome},
        "published": counted.published,
        "held_batches": sum(each.held_batches for each in closed),
    }


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
            f"{counted.timed_out} transactions count as aborted: their timeout had passed when the "
            "coordinator's log was copied"
        )
    for outcome, trouble in _TROUBLES.items():
        if counted.outcomes[outcome]:
            yield f"the records of {counted.outcomes[outcome]} {outcome} transactions are held: {trouble}"
