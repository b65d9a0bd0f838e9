"""`admit`: a verdict for every batch, an offset for every accepted one, the state for the next run.

Read on in: `job` (what a task receives and returns), `worker` (what a Spark task does, and captured
partitions), `broker_log` (partitions of brokers' logs), `partition` (their tables); then `gaps` for
brokers' logs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, groupby, islice
from typing import Any

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.log_files import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    parse_file_name,
)
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict, VerdictGroup
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import put_segments
from spark_jobs.lake.index_rows import base_offset_of, first_segments
from spark_jobs.lake.inherited_rows import InheritedObject, manifest_entry
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import (
    BATCH_ROLES,
    SEGMENT_ROLES,
    Manifest,
    ManifestEntry,
    ObjectRole,
    StagedObjects,
)
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.states import digest_of_states, put_states, read_states, states_before
from spark_jobs.pipeline.admit.job import AdmitSummary, AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.pipeline.admit.worker import admit_partitions
from spark_jobs.pipeline.context import RunContext, StepResult, spread
from spark_jobs.sources.broker_files import read_checkpoints
from spark_jobs.sources.inheritance import put_reaches
from spark_jobs.sources.partitions import RunPartition, run_partitions
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, KIND_OF, GapStatus
from spark_jobs.tables.rebuild import MARKER_FILES
from spark_jobs.tables.states import INHERITED_OBJECTS

TASKS = 8
SMALLEST_TASK, LARGEST_TASK = 60_000, 1 << 20
"""Tasks share files, so how many there are does not depend on the machine."""
MOST_MESSAGES = 20


class CountsDoNotAddUp(OnceoverError):
    """Batches without a verdict, or with two: a mistake in Onceover, and nothing may be published on it."""


def run(context: RunContext) -> StepResult:
    """Admits every partition with objects in this run; the others keep their state."""
    partitions = run_partitions(context.folder, context.manifest, context.settings)
    states = read_states(context.lake, context.folder.run_id, Step.REBUILD)
    tasks = _tasks(context, partitions, states)
    # The largest first, so that no worker is left with one of them while the others have nothing to do.
    done = context.run_tasks(admit_partitions, sorted(tasks, key=lambda task: (-task.cost, task.number)))
    summaries = sorted(done, key=lambda summary: summary.partitions[0].partition)
    admitted = tuple(chain.from_iterable(summary.partitions for summary in summaries))
    check_conservation(partitions, admitted)
    after = states | {each.partition: each.state for each in admitted}
    folder = context.folder.key(Step.ADMIT)
    gaps = gaps_table(admitted, _gaps_before(context))
    return StepResult(
        outputs=(
            put_table(context.lake, folder, ADMITTED_PARTITIONS.file, _partitions_table(summaries)),
            put_table(context.lake, folder, GAPS.file, gaps),
            put_states(context.folder, Step.ADMIT, after),
            put_segments(context.folder, ((each.partition, each.segments) for each in admitted)),
            put_reaches(context.folder, dict(chain.from_iterable(each.reaches.items() for each in admitted))),
            *chain.from_iterable(summary.outputs for summary in summaries),
            *chain.from_iterable(each.outputs for each in admitted),
        ),
        counts=_counts(admitted, gaps),
        state=digest_of_states(after),
        messages=tuple(
            islice(
                chain(
                    gap_messages(gaps),
                    misplaced_messages(context.manifest, admitted),
                    log_messages(admitted),
                    txn_index_messages(admitted),
                ),
                MOST_MESSAGES,
            )
        ),
    )


def check_conservation(partitions: Sequence[RunPartition], admitted: Sequence[AdmittedPartition]) -> None:
    """Every indexed batch, and every parked one, has exactly one verdict."""
    rows = {each.partition: each.rows for each in partitions}
    for each in admitted:
        expected = rows[each.partition] + each.inherited + each.markers
        if each.rows != expected:
            raise CountsDoNotAddUp(
                f"{each.partition}: expected {expected} verdicts, found {each.rows} ({each.verdicts})"
            )


def _tasks(
    context: RunContext, partitions: Sequence[RunPartition], states: dict[TopicPartition, str]
) -> list[AdmitTask]:
    inherited, markers = _inherited_entries(context), _marker_files(context)
    old = {TopicPartition(each.topic, each.partition): each for each in context.manifest.truncations}
    staged = StagedObjects(context.settings)
    cleaned = read_checkpoints(context.manifest, staged, CLEANER_OFFSET_CHECKPOINT)
    log_starts = read_checkpoints(context.manifest, staged, LOG_START_OFFSET_CHECKPOINT)
    jobs = [
        replace(
            _job(
                each,
                states[each.partition],
                inherited.get(each.partition, []),
                markers.get(each.partition, ""),
            ),
            truncation=old.get(each.partition),
            cleaned_offset=cleaned.get(each.partition, 0),
            log_start_offset=log_starts.get(each.partition, 0),
        )
        for each in partitions
    ]
    packed = spread(jobs, cost=_cost, tasks=TASKS, smallest=SMALLEST_TASK, largest=LARGEST_TASK)
    return [
        AdmitTask(
            number=number,
            jobs=together,
            lake=context.lake,
            folder=context.folder.key(Step.ADMIT),
            settings=context.settings,
            day=context.folder.inputs.day,
        )
        for number, together in enumerate(packed)
    ]


def _cost(job: PartitionJob) -> int:
    return job.cost


def _job(found: RunPartition, state: str, inherited: list[ManifestEntry], markers: str) -> PartitionJob:
    batches = tuple(entry for entry in found.entries if entry.role in BATCH_ROLES)
    segments = [entry for entry in found.entries if entry.role in SEGMENT_ROLES]
    return PartitionJob(
        partition=found.partition,
        origin=found.origin,
        state=state,
        copies=found.copies,
        unused=found.others,
        objects=(*inherited, *batches),
        checkpoints=tuple(entry for entry in found.entries if entry.role is ObjectRole.LEADER_EPOCHS),
        markers=markers,
        txn_indexes=tuple(
            entry
            for entry in found.entries
            if entry.role is ObjectRole.TXN_INDEX and parse_file_name(entry.name) is None
        ),
        staged_copies=len({(entry.source, entry.copy_directory) for entry in segments}),
        first_segments=first_segments(found.entries),
        inherits=any(entry.inherited or entry.inherited_bytes for entry in segments),
        staged_end_offset=max(
            (max(base_offset_of(entry), entry.next_offset) for entry in segments), default=0
        ),
    )


def _inherited_entries(context: RunContext) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = {}
    for row in read_table(context.lake, context.folder.key(Step.REBUILD, INHERITED_OBJECTS.file)).to_pylist():
        order, topic, partition = row.pop("object_order"), row.pop("topic"), row.pop("partition")
        entry = manifest_entry(InheritedObject(**row), order=order, topic=topic, partition=partition)
        found.setdefault(TopicPartition(topic, partition), []).append(entry)
    return found


def _marker_files(context: RunContext) -> dict[TopicPartition, str]:
    """Keys of the markers that the coordinator's log gave, for partitions whose capture has none."""
    key = context.folder.key(Step.REBUILD, MARKER_FILES.file)
    if context.lake.stat(key) is None:
        return {}
    return {
        TopicPartition(row["topic"], row["partition"]): context.folder.key(Step.REBUILD, row["file"])
        for row in read_table(context.lake, key).to_pylist()
    }


def _groups(each: AdmittedPartition) -> dict[VerdictGroup, int]:
    groups = dict.fromkeys(VerdictGroup, 0)
    for verdict, count in each.verdicts.items():
        groups[verdict.group] += count
    return groups


def _partitions_table(summaries: Sequence[AdmitSummary]) -> pa.Table:
    rows = [_partition_row(each, summary) for summary in summaries for each in summary.partitions]
    return ADMITTED_PARTITIONS.cast(pa.Table.from_pylist(rows, schema=ADMITTED_PARTITIONS.schema))


def _partition_row(each: AdmittedPartition, summary: AdmitSummary) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "kind": KIND_OF[each.origin],
        "batches": each.batches,
        "rows": each.rows,
        "inherited": each.inherited,
        "markers": each.markers,
        **{group.value: count for group, count in _groups(each).items()},
        "start_offset": each.start_offset,
        "end_offset": each.end_offset,
        "log_start_offset": each.log_start_offset,
        "first_unstable_offset": each.first_unstable_offset,
        "leader_epoch": each.leader_epoch,
        "producers": each.producers,
        "gaps": each.gaps,
        "cleaned_offset": each.cleaned_offset,
        "critical": each.critical,
        "transactions": summary.transactions if each.transactions else None,
        "state": each.state,
    }


def _gaps_before(context: RunContext) -> pa.Table:
    """The table of the run before; none on a first one."""
    run_id, _ = states_before(context.lake, context.chain, context.folder.inputs.state_in)
    if not run_id:
        return GAPS.empty()
    key = step_key(run_id, Step.ADMIT, GAPS.file)
    return read_table(context.lake, key) if context.lake.stat(key) is not None else GAPS.empty()


def gaps_table(admitted: Sequence[AdmittedPartition], before: pa.Table) -> pa.Table:
    """The gaps of the run's partitions; those of all others are still open if they were."""
    names = {each.partition for each in admitted}
    still_open = [
        row
        for row in before.to_pylist()
        if row["status"] == GapStatus.OPEN and TopicPartition(row["topic"], row["partition"]) not in names
    ]
    found = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            **asdict(row),
            "before": row.before or None,
            "after": row.after or None,
        }
        for each in admitted
        for row in each.gap_rows
    ]
    rows = sorted((*still_open, *found), key=lambda row: (row["topic"], row["partition"]))
    return GAPS.cast(pa.Table.from_pylist(rows, schema=GAPS.schema))


def _counts(admitted: Sequence[AdmittedPartition], gaps: pa.Table) -> dict[str, int]:
    is_open = [row for row in gaps.to_pylist() if row["status"] == GapStatus.OPEN]
    verdicts = {
        verdict.value: sum(each.verdicts.get(verdict, 0) for each in admitted) for verdict in VERDICTS
    }
    misplaced = sum(each.misplaced.count for each in admitted if each.misplaced is not None)
    return {
        "partitions": len(admitted),
        "batches": sum(each.rows for each in admitted),
        **{name: count for name, count in verdicts.items() if count},
        "gaps": sum(each.gaps for each in admitted),
        "critical": sum(each.critical for each in admitted),
        **({"misplaced": misplaced} if misplaced else {}),
        **(
            {"held_partitions": len({(row["topic"], row["partition"]) for row in is_open})} if is_open else {}
        ),
    }


Row = dict[str, Any]


def gap_messages(gaps: pa.Table) -> Iterator[str]:
    """Sentences about rows of the table `gaps`; those that hold a partition come first."""
    rows = gaps.to_pylist()
    by_partition = [list(same) for _, same in groupby(rows, lambda row: (row["topic"], row["partition"]))]
    for status, sentence in SENTENCES.items():
        for same in by_partition:
            found = [row for row in same if row["status"] == status]
            if found:
                yield sentence(f"{found[0]['topic']}-{found[0]['partition']}", found)


def _range(rows: list[Row]) -> str:
    first = f"offsets {rows[0]['first_offset']} to {rows[0]['last_offset']}"
    return first if len(rows) == 1 else f"{first} and {len(rows) - 1} more ranges"


def _open(name: str, rows: list[Row]) -> str:
    batches, records = (sum(row[key] for row in rows) for key in ("held_batches", "held_records"))
    found_on = rows[0]["found_on"]
    return (
        f"critical: {name}: {_range(rows)} are in no copy since the run of {found_on}. Published up to "
        f"{rows[0]['first_offset']}; {batches} batches with {records} records behind the gap are held until "
        "a copy has the missing offsets. A compacted topic needs cleanup_policy: compact; gaps: publish_past "
        "publishes without them"
    )


def _passed(name: str, rows: list[Row]) -> str:
    return f"{name}: {_range(rows)} are in no copy; published past them, as gaps: publish_past says"


def _deleted(name: str, rows: list[Row]) -> str:
    return f"{name}: the broker deleted {_range(rows)} before any copy had them"


def _late(name: str, rows: list[Row]) -> str:
    days = sorted({row["found_on"] for row in rows})
    return (
        f"{name}: {rows[0]['after']} has {_range(rows)}, which an earlier run published past; to publish "
        f"them: onceover backfill --from {days[0]} --to {days[-1]}"
    )


def _filled(name: str, rows: list[Row]) -> str:
    return f"{name}: {_range(rows)}, missing since the run of {rows[0]['found_on']}, have arrived"


def _truncated(name: str, rows: list[Row]) -> str:
    return f"{name}: the log ends before {_range(rows)} now, missing since the run of {rows[0]['found_on']}"


SENTENCES = {
    GapStatus.OPEN: _open,
    GapStatus.LATE: _late,
    GapStatus.PUBLISHED_PAST: _passed,
    GapStatus.DELETED: _deleted,
    GapStatus.TRUNCATED: _truncated,
    GapStatus.FILLED: _filled,
}


def misplaced_messages(manifest: Manifest, admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on batches at impossible offsets."""
    objects = {entry.order: entry for entry in manifest.batches}
    for each in admitted:
        if (found := each.misplaced) is not None:
            entry = objects[found.object_order]
            where = f"{entry.source}/{entry.path} at byte {found.position}"
            yield (
                f"{each.partition} holds {found.count} batches at impossible offsets, quarantined as "
                f"corrupt; the first is in {where}: {found.reason}"
            )


def txn_index_messages(admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on transaction indexes of tiered storage that differ from the markers, which decide."""
    for each in admitted:
        if found := each.txn_index_differences:
            more = f" and {len(found) - 1} more differences" if len(found) > 1 else ""
            yield (
                f"warning: {each.partition}: {found[0]}{more}. The markers decide; the log or the index is "
                "not what the broker wrote"
            )


def log_messages(admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on logs that no broker could load, and on logs that contradict earlier runs or each other."""
    for each in admitted:
        if each.critical:
            yield (
                f"critical: {each.partition} holds {each.critical} plain batches inside open transactions of "
                "their producers; no broker could load this log again"
            )
        if each.staged_end_offset < each.start_offset:
            yield (
                f"critical: {each.partition} was staged up to offset {each.staged_end_offset}, but earlier "
                f"runs have taken it up to {each.start_offset}: truncated, or the topic was recreated"
            )
        if Verdict.DIVERGENT in each.verdicts:
            count = each.verdicts[Verdict.DIVERGENT]
            yield f"{each.partition} holds {count} batches that another leader's contradict: divergent"
