"""`rebuild`: the state that every partition starts the run with, and where it came from.

Read on in: `job` (what a task receives and returns), `worker` (what a Spark task does). The step also folds
the coordinators' logs (`coordinator_logs.folding`) and adds missing markers (`captures.markers`).
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import LOG_START_OFFSET_CHECKPOINT
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition, topic_of
from spark_jobs.lake.index_rows import first_segments
from spark_jobs.lake.manifest import SEGMENT_ROLES, ObjectRole, StagedObjects
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.states import put_states, states_before
from spark_jobs.pipeline.captures.markers import mark_all
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.coordinator_logs.folding import fold_coordinators
from spark_jobs.pipeline.rebuild.job import RebuildJob, RebuildTask, Rebuilt
from spark_jobs.pipeline.rebuild.worker import offset_of, rebuild_partitions
from spark_jobs.sources.broker_files import OffsetsByDirectory, read_by_directory
from spark_jobs.sources.partitions import RunPartition, run_partitions
from spark_jobs.sources.registry import reader_of
from spark_jobs.tables.rebuild import STATE_ORIGINS
from spark_jobs.tables.states import INHERITED_OBJECTS
from spark_jobs.tables.table_names import readable_name

PARTITIONS_PER_TASK = 64
DAY_MS = 86_400_000
MOST_MESSAGES = 20
MOST_NAMES = 5


def run(context: RunContext) -> StepResult:
    """State files for all partitions with objects in this run; the others keep theirs."""
    run_id, before = states_before(context.lake, context.chain, context.folder.inputs.state_in)
    partitions = run_partitions(context.folder, context.manifest, context.settings)
    rebuilt = _rebuild_all(context, partitions, run_id, before)
    states = before | {each.partition: each.state for each in rebuilt}
    coordinators = fold_coordinators(context, partitions)
    captures = mark_all(context, partitions, states)
    folder, lake = context.folder, context.lake
    return StepResult(
        outputs=(
            put_states(folder, Step.REBUILD, states),
            put_table(lake, folder.key(Step.REBUILD), STATE_ORIGINS.file, _origins_table(rebuilt)),
            put_table(lake, folder.key(Step.REBUILD), INHERITED_OBJECTS.file, _inherited_table(rebuilt)),
            *coordinators.outputs,
            *captures.outputs,
        ),
        counts={
            "partitions": len(states),
            "rebuilt": len(rebuilt),
            "producers": sum(each.producers for each in rebuilt),
            "expired": sum(each.expired for each in rebuilt),
            "coordinator_records": coordinators.records,
            "markers": captures.markers,
        },
        messages=tuple(
            islice(
                chain(
                    _source_remarks(context),
                    _new_logs(context, before),
                    coordinators.messages,
                    _messages(rebuilt),
                ),
                MOST_MESSAGES,
            )
        ),
    )


def _rebuild_all(
    context: RunContext, partitions: Sequence[RunPartition], run_id: str, before: dict[TopicPartition, str]
) -> tuple[Rebuilt, ...]:
    # Where a checkpoint cannot be read, a broker takes the first segment's base, and so do we.
    log_starts = read_by_directory(
        context.manifest, StagedObjects(context.settings), LOG_START_OFFSET_CHECKPOINT
    )
    jobs = [
        _job(context, each, run_id if each.partition in before else "", before, log_starts)
        for each in partitions
    ]
    tasks = [
        RebuildTask(
            jobs=tuple(jobs[start : start + PARTITIONS_PER_TASK]),
            lake=context.lake,
            settings=context.settings,
            day_start=context.now_ms - DAY_MS,
        )
        for start in range(0, len(jobs), PARTITIONS_PER_TASK)
    ]
    has_nothing_to_read = not any(job.state or job.seeds or job.snapshots for job in jobs)
    in_driver = len(tasks) == 1 and has_nothing_to_read
    return tuple(chain.from_iterable(context.run_tasks(rebuild_partitions, tasks, in_driver=in_driver)))


def _job(
    context: RunContext,
    found: RunPartition,
    run_id: str,
    before: dict[TopicPartition, str],
    log_starts: OffsetsByDirectory,
) -> RebuildJob:
    segments = [offset_of(entry) for entry in found.entries if entry.role in SEGMENT_ROLES]
    starts = [
        log_starts.get((entry.source, entry.log_directory), {}).get(found.partition, 0)
        for entry in found.entries
        if entry.role in SEGMENT_ROLES
    ]
    return RebuildJob(
        partition=found.partition,
        origin=found.origin,
        state=before.get(found.partition, ""),
        run_id=run_id,
        has_news=not all(entry.seen for entry in found.entries),
        first_offset=min(segments, default=0) if found.origin is AppendOrigin.REPLICATION else 0,
        log_start_offset=max(starts, default=0),
        seeds=tuple(copy for copy in found.others if context.settings.source(copy.source).seed),
        snapshots=tuple(entry for entry in found.entries if entry.role is ObjectRole.SNAPSHOT),
        topic_id=next((entry.topic_id for entry in found.entries if entry.topic_id), ""),
        first_segments=first_segments(found.entries),
        checkpoints=tuple(entry for entry in found.entries if entry.role is ObjectRole.LEADER_EPOCHS),
    )


def _origins_table(rebuilt: Sequence[Rebuilt]) -> pa.Table:
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "origin": each.provenance.origin.value,
            "run_id": each.run_id or None,
            "snapshot": each.provenance.snapshot,
            "snapshot_offset": each.provenance.snapshot_offset,
            "tail_first_offset": each.provenance.tail_first_offset,
            "tail_last_offset": each.provenance.tail_last_offset,
            "skipped": list(each.provenance.skipped),
            "producers": each.producers,
            "expired": each.expired,
            "state": each.state,
            "message": each.provenance.message,
        }
        for each in rebuilt
    ]
    return STATE_ORIGINS.cast(pa.Table.from_pylist(rows, schema=STATE_ORIGINS.schema))


def _inherited_table(rebuilt: Sequence[Rebuilt]) -> pa.Table:
    """Objects of earlier runs, numbered so that they come before every object of this one."""
    found = [(each.partition, inherited) for each in rebuilt for inherited in each.inherited]
    rows = [
        {
            "object_order": order - len(found),
            "topic": partition.topic,
            "partition": partition.partition,
            "source": inherited.source,
            "path": inherited.path,
            "role": inherited.role,
            "size": inherited.size,
            "sha256": inherited.sha256,
            "version": inherited.version,
            "referenced": inherited.referenced,
        }
        for order, (partition, inherited) in enumerate(found)
    ]
    return INHERITED_OBJECTS.cast(pa.Table.from_pylist(rows, schema=INHERITED_OBJECTS.schema))


def _source_remarks(context: RunContext) -> Iterator[str]:
    for source in context.settings.sources:
        yield from reader_of(source).remarks(context.manifest, context.settings)


def _new_logs(context: RunContext, before: dict[TopicPartition, str]) -> Iterator[str]:
    """Topics that were recreated: which log begins in this run, and where its records are."""
    known = {partition.topic for partition in before}
    for log, topic_id in sorted({(entry.topic, entry.topic_id) for entry in context.manifest.entries}):
        if log != topic_of(log) and log not in known and topic_id:
            yield (
                f"{topic_of(log)} was deleted and recreated: its new log, topic id {topic_id}, is called "
                f"{log} and has a table of its own ({readable_name(log)} if that name is free)"
            )


def _messages(rebuilt: Sequence[Rebuilt]) -> Iterator[str]:
    """What a person should know: states that are unavailable, and snapshots that could not be read."""
    by_message: dict[str, list[TopicPartition]] = {}
    for each in rebuilt:
        if each.provenance.message is not None:
            by_message.setdefault(each.provenance.message, []).append(each.partition)
    for message, partitions in by_message.items():
        yield f"{_named(partitions)}: {message}"
    for each in rebuilt:
        yield from (f"{each.partition}: passed over {reason}" for reason in each.provenance.skipped)


def _named(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions[:MOST_NAMES]))
    more = len(partitions) - MOST_NAMES
    return f"{names} and {more} more partitions" if more > 0 else names
