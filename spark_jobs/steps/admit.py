"""`admit`: a verdict for every batch, an offset for every accepted one, the state for the next night."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from spark_jobs.admitting.job import AdmitSummary, AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.admitting.worker import admit_partitions
from spark_jobs.config.sources import SourceKind
from spark_jobs.flow import Step
from spark_jobs.packing import spread
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.protocol.log_files import CLEANER_OFFSET_CHECKPOINT
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import GROUP_OF, VERDICTS, Verdict, VerdictGroup
from spark_jobs.steps.context import RunContext, StepResult
from spark_jobs.storage.broker_checkpoints import read_checkpoints
from spark_jobs.storage.carried_rows import CarriedObject, manifest_entry
from spark_jobs.storage.manifest import BATCH_ROLES, ManifestEntry, ObjectRole
from spark_jobs.storage.night_partitions import NightPartition, night_partitions
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.planned_segments import put_segments
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.states import digest_of_states, put_states, read_states
from spark_jobs.tables.admitted_partitions import ADMITTED_PARTITIONS

PARTITIONS = "partitions.parquet"
CARRIED = "carried_objects.parquet"
MARKERS = "markers.parquet"
TASKS = 8
SMALLEST_TASK, LARGEST_TASK = 60_000, 1 << 20
"""Tasks share files, so how many there are does not depend on the machine."""
MOST_MESSAGES = 20


class CountsDoNotAddUp(OnceoverError):
    """Batches without a verdict, or with two: a mistake in Onceover, and nothing may be published on it."""


def run(context: RunContext) -> StepResult:
    """Admit every partition that has objects tonight; the others keep their state."""
    partitions = night_partitions(context.folder, context.manifest, context.settings)
    states = read_states(context.lake, context.folder.run_id, Step.REBUILD)
    tasks = _tasks(context, partitions, states)
    # The largest first, so that no worker is left with one of them while the others have nothing to do.
    done = context.run_tasks(admit_partitions, sorted(tasks, key=lambda task: (-task.cost, task.number)))
    summaries = sorted(done, key=lambda summary: summary.partitions[0].partition)
    admitted = tuple(chain.from_iterable(summary.partitions for summary in summaries))
    check_conservation(partitions, admitted)
    after = states | {each.partition: each.state for each in admitted}
    listing = put_table(
        context.lake, context.folder.key(Step.ADMIT), PARTITIONS, _partitions_table(summaries)
    )
    return StepResult(
        outputs=(
            listing,
            put_states(context.folder, Step.ADMIT, after),
            put_segments(context.folder, ((each.partition, each.segments) for each in admitted)),
            *chain.from_iterable(summary.outputs for summary in summaries),
            *chain.from_iterable(each.outputs for each in admitted),
        ),
        counts=_counts(admitted),
        state=digest_of_states(after),
        messages=tuple(islice(chain(_misplaced(context, admitted), _messages(admitted)), MOST_MESSAGES)),
    )


def check_conservation(partitions: Sequence[NightPartition], admitted: Sequence[AdmittedPartition]) -> None:
    """Every indexed batch, and every one that waited, has exactly one verdict."""
    rows = {each.partition: each.rows for each in partitions}
    for each in admitted:
        expected = rows[each.partition] + each.carried + each.markers
        if each.rows != expected:
            raise CountsDoNotAddUp(
                f"{each.partition}: expected {expected} verdicts, found {each.rows} ({each.verdicts})"
            )


def _tasks(
    context: RunContext, partitions: Sequence[NightPartition], states: dict[TopicPartition, str]
) -> list[AdmitTask]:
    carried, markers = _carried_entries(context), _marker_files(context)
    old = {TopicPartition(each.topic, each.partition): each for each in context.manifest.truncations}
    cleaned = read_checkpoints(context.manifest, StagedObjects(context.settings), CLEANER_OFFSET_CHECKPOINT)
    jobs = [
        replace(
            _job(
                each, states[each.partition], carried.get(each.partition, []), markers.get(each.partition, "")
            ),
            truncation=old.get(each.partition),
            is_cleaned=each.partition in cleaned,
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
        )
        for number, together in enumerate(packed)
    ]


def _cost(job: PartitionJob) -> int:
    return job.cost


def _job(found: NightPartition, state: str, carried: list[ManifestEntry], markers: str) -> PartitionJob:
    batches = tuple(entry for entry in found.entries if entry.role in BATCH_ROLES)
    return PartitionJob(
        partition=found.partition,
        kind=found.kind,
        state=state,
        copies=found.copies,
        unused=found.others,
        objects=(*carried, *batches) if found.kind is SourceKind.CAPTURE else (),
        checkpoints=tuple(entry for entry in found.entries if entry.role is ObjectRole.LEADER_EPOCHS),
        markers=markers,
    )


def _carried_entries(context: RunContext) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = {}
    for row in read_table(context.lake, context.folder.key(Step.REBUILD, CARRIED)).to_pylist():
        order, topic, partition = row.pop("object_order"), row.pop("topic"), row.pop("partition")
        entry = manifest_entry(CarriedObject(**row), order=order, topic=topic, partition=partition)
        found.setdefault(TopicPartition(topic, partition), []).append(entry)
    return found


def _marker_files(context: RunContext) -> dict[TopicPartition, str]:
    """Keys of the markers that the coordinator's log gave, for partitions whose capture has none."""
    key = context.folder.key(Step.REBUILD, MARKERS)
    if context.lake.stat(key) is None:
        return {}
    return {
        TopicPartition(row["topic"], row["partition"]): context.folder.key(Step.REBUILD, row["file"])
        for row in read_table(context.lake, key).to_pylist()
    }


def _groups(each: AdmittedPartition) -> dict[VerdictGroup, int]:
    groups = dict.fromkeys(VerdictGroup, 0)
    for verdict, count in each.verdicts.items():
        groups[GROUP_OF[verdict]] += count
    return groups


def _partitions_table(summaries: Sequence[AdmitSummary]) -> pa.Table:
    rows = [_partition_row(each, summary) for summary in summaries for each in summary.partitions]
    return ADMITTED_PARTITIONS.cast(pa.Table.from_pylist(rows, schema=ADMITTED_PARTITIONS.schema))


def _partition_row(each: AdmittedPartition, summary: AdmitSummary) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "kind": each.kind.value,
        "batches": each.batches,
        "rows": each.rows,
        "carried": each.carried,
        "markers": each.markers,
        **{group.value: count for group, count in _groups(each).items()},
        "start_offset": each.start_offset,
        "end_offset": each.end_offset,
        "log_start_offset": each.log_start_offset,
        "first_unstable_offset": each.first_unstable_offset,
        "leader_epoch": each.leader_epoch,
        "producers": each.producers,
        "gaps": each.gaps,
        "critical": each.critical,
        "transactions": summary.transactions if each.transactions else None,
        "state": each.state,
    }


def _counts(admitted: Sequence[AdmittedPartition]) -> dict[str, int]:
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
    }


def _misplaced(context: RunContext, admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Where batches stand at offsets that cannot be theirs."""
    objects = {entry.order: entry for entry in context.manifest.batches}
    for each in admitted:
        if (found := each.misplaced) is not None:
            entry = objects[found.object_order]
            where = f"{entry.source}/{entry.path} at byte {found.position}"
            yield (
                f"{each.partition} holds {found.count} batches at offsets that cannot be theirs, set aside "
                f"as corrupt; the first stands in {where}: {found.reason}"
            )


def _messages(admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    for each in admitted:
        if each.critical:
            yield (
                f"critical: {each.partition} holds {each.critical} plain batches inside open transactions of "
                "their producers; no broker could load this log again"
            )
        if each.staged_end_offset < each.start_offset:
            yield (
                f"critical: {each.partition} was staged up to offset {each.staged_end_offset}, but earlier "
                f"nights have taken it up to {each.start_offset}: truncated, or the topic was created anew"
            )
        if Verdict.DIVERGENT in each.verdicts:
            count = each.verdicts[Verdict.DIVERGENT]
            yield f"{each.partition} holds {count} batches that another leader's contradict: divergent"
        if each.gaps:
            yield f"{each.partition} misses {each.gaps} ranges of offsets; see the table gaps"
