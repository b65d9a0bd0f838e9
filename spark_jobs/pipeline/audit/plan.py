"""The plan of `audit`: what earlier steps have written by partition, and the tasks that count it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.config.settings import Publish, Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.index_rows import read_index_files
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import Manifest, read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.run_folder import RunFolder
from spark_jobs.lake.states import STATE_STEPS, read_states, states_before
from spark_jobs.lake.table_listing import final_listing
from spark_jobs.pipeline.audit.job import AuditTask, PartitionInputs, RecordChecks, StateDigests
from spark_jobs.pipeline.audit.partitioners import Fits
from spark_jobs.pipeline.audit.sequences import NEVER
from spark_jobs.pipeline.audit.transaction_facts import PublishedRange, TransactionTask
from spark_jobs.pipeline.context import fair_share, pack
from spark_jobs.sources.partitions import has_holes_by_design
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, KIND_OF, GapStatus
from spark_jobs.tables.materialise import RECORDS_FOLDER, REPLAYED_FOLDER, UNREADABLE, QuarantineKind
from spark_jobs.tables.rebuild import STATE_ORIGINS, StateOrigin
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS, TRANSACTIONS
from spark_jobs.tables.states import STATES

# What earlier steps have written, by partition.

Rows = Mapping[TopicPartition, Mapping[str, Any]]
States = Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The tables of a run by partition; `earlier` is the `resolved_partitions` of the run before."""

    resolved: Rows
    admitted: Rows
    earlier: Rows
    indexed: Mapping[TopicPartition, int]
    unreadable: Mapping[TopicPartition, Counter[str]]
    replayed: Mapping[TopicPartition, int]
    gaps: Mapping[TopicPartition, Sequence[Mapping[str, Any]]]
    origins: Rows
    previous: States
    at_start: States
    after: States

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every one that any table knows, also those that should be in others, too."""
        return sorted({*self.resolved, *self.admitted, *self.indexed, *self.previous, *self.after})


def read_accounts(folder: RunFolder, chain: Chain) -> Accounts:
    """Reads the tables of the run's steps."""
    lake = folder.lake
    run_before, previous = states_before(lake, chain, folder.inputs.state_in)
    copies = read_index_files(folder)
    return Accounts(
        resolved=rows_by_partition(lake, folder.key(Step.RESOLVE, RESOLVED_PARTITIONS.file)),
        admitted=rows_by_partition(lake, folder.key(Step.ADMIT, ADMITTED_PARTITIONS.file)),
        earlier=rows_by_partition(lake, step_key(run_before, Step.RESOLVE, RESOLVED_PARTITIONS.file))
        if run_before
        else {},
        indexed={partition: sum(copy.rows for copy in found) for partition, found in copies.items()},
        unreadable=_unreadable(lake, outputs_of(folder, Step.MATERIALISE, UNREADABLE.file_prefix)),
        replayed=_replayed(read_run_manifest(lake, folder.run_id)),
        gaps=_gaps(lake, folder.key(Step.ADMIT, GAPS.file)),
        origins=rows_by_partition(lake, folder.key(Step.REBUILD, STATE_ORIGINS.file)),
        previous=previous,
        at_start=read_states(lake, folder.run_id, Step.REBUILD),
        after=_states_after(folder),
    )


def partition_inputs(folder: RunFolder, accounts: Accounts, settings: Settings) -> list[PartitionInputs]:
    """One per partition, in order."""
    return [_inputs(folder, each, accounts, settings) for each in accounts.partitions]


def outputs_of(folder: RunFolder, step: Step, prefix: str) -> tuple[str, ...]:
    """Keys of the files that a finished step wrote below `prefix`."""
    done = folder.done(step)
    paths = [output.path for output in done.outputs] if done is not None else []
    return tuple(folder.key(step, path) for path in paths if path.startswith(prefix))


def _inputs(
    folder: RunFolder, partition: TopicPartition, accounts: Accounts, settings: Settings
) -> PartitionInputs:
    resolved, admitted = accounts.resolved.get(partition, {}), accounts.admitted.get(partition, {})
    earlier = accounts.earlier.get(partition, {})
    left_out = accounts.unreadable.get(partition, Counter())
    is_internal = partition.topic in INTERNAL_TOPICS
    return PartitionInputs(
        partition=partition,
        indexed=accounts.indexed.get(partition, 0),
        start_offset=admitted.get("start_offset", 0),
        # Kafka's own topics have no table: nothing of them is published.
        first_offset=0 if is_internal else resolved.get("first_offset", 0),
        end_offset=0 if is_internal else resolved.get("end_offset", 0),
        published_before=earlier.get("end_offset", 0),
        batches=key_of(folder, Step.ADMIT, admitted.get("batches")),
        outcomes=key_of(folder, Step.RESOLVE, resolved.get("outcomes")),
        held=tuple(resolved.get("held", ())),
        late=() if is_internal else tuple(resolved.get("late", ())),
        **_gap_inputs(accounts.gaps.get(partition, ())),
        cleaned_offset=admitted.get("cleaned_offset", 0),
        is_compacted=has_holes_by_design(partition.topic, settings),
        expired_before=_expired_before(folder, settings)
        if admitted.get("kind") == KIND_OF[AppendOrigin.REPLICATION]
        else NEVER,
        unreadable_records=left_out[QuarantineKind.CORRUPT],
        unfit_records=left_out[QuarantineKind.UNFIT],
        replayed_records=accounts.replayed.get(partition, 0),
        states=StateDigests(
            previous=accounts.previous.get(partition, ""),
            at_start=accounts.at_start.get(partition, ""),
            after=accounts.after.get(partition, ""),
            admitted_end=admitted.get("end_offset"),
            is_behind_gap=accounts.origins.get(partition, {}).get("origin") == StateOrigin.SNAPSHOT,
        ),
        last_stable_before=earlier.get("last_stable_offset", 0),
        last_stable_offset=resolved.get("last_stable_offset", 0),
    )


PASSED = (GapStatus.DELETED, GapStatus.PUBLISHED_PAST)


def _gap_inputs(gaps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Inputs from the rows of the table `gaps` of a partition."""
    is_open = [row for row in gaps if row["status"] == GapStatus.OPEN]
    passed = [row for row in gaps if row["status"] in PASSED]
    return {
        "passed_gaps": tuple((row["first_offset"], row["last_offset"]) for row in passed),
        "gap_offsets": sum(row["last_offset"] - row["first_offset"] + 1 for row in is_open),
        "behind_gaps": sum(row["held_batches"] for row in is_open),
    }


def _gaps(lake: ObjectStore, key: str) -> Mapping[TopicPartition, Sequence[Mapping[str, Any]]]:
    found: dict[TopicPartition, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_table(lake, key).to_pylist() if lake.stat(key) is not None else ():
        found[TopicPartition(row["topic"], row["partition"])].append(row)
    return found


def _expired_before(folder: RunFolder, settings: Settings) -> int:
    """Producers that were idle since then may have expired before the log was copied."""
    return folder.inputs.logical_time_ms - settings.kafka.producer_id_expiration_ms


def key_of(folder: RunFolder, step: Step, path: str | None) -> str:
    return folder.key(step, path) if path else ""


def rows_by_partition(lake: ObjectStore, key: str) -> Rows:
    if lake.stat(key) is None:
        return {}
    rows = read_table(lake, key).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}


def _states_after(folder: RunFolder) -> States:
    for step in STATE_STEPS:
        if folder.lake.stat(folder.key(step, STATES.file)) is not None:
            return read_states(folder.lake, folder.run_id, step)
    return {}


def _replayed(manifest: Manifest) -> Mapping[TopicPartition, int]:
    """Replayed records of earlier runs."""
    found: dict[TopicPartition, int] = defaultdict(int)
    for replay in manifest.replays:
        found[TopicPartition(replay.topic, replay.partition)] += replay.records
    return found


def _unreadable(lake: ObjectStore, keys: Iterable[str]) -> Mapping[TopicPartition, Counter[str]]:
    """Records of committed batches that are not published, by kind: undecodable, or unfit."""
    found: dict[TopicPartition, Counter[str]] = defaultdict(Counter)
    names = ["topic", "partition", "kind"]
    for key in keys:
        for part in iter_rows(lake, key, columns=[*names, "records"]):
            sums = pa.table(part).group_by(names).aggregate([("records", "sum")])
            for row in sums.to_pylist():
                found[TopicPartition(row["topic"], row["partition"])][row["kind"]] += row["records_sum"]
    return found


# Tasks: neighbouring partitions of one topic share a task and its files.

PARTITION_COST = 10_000
"""What opening a partition's files costs, in rows that could be read meanwhile."""
TASKS_PER_SLOT = 2
SMALLEST_TASK, LARGEST_TASK = 1 << 18, 1 << 23


def plan_tasks(
    folder: RunFolder,
    inputs: Sequence[PartitionInputs],
    settings: Settings,
    fits: Mapping[str, Fits],
    *,
    parallelism: int,
) -> list[AuditTask]:
    """Tasks in the order of the partitions; `fits` by topic is what has placed keys in earlier runs."""
    records, replayed = _record_files(folder, RECORDS_FOLDER), _record_files(folder, REPLAYED_FOLDER)
    bounds = RecordChecks(
        earliest_ms=settings.audit.earliest_ms,
        latest_ms=folder.inputs.logical_time_ms + settings.audit.timestamp_ahead_ms,
        key_sample=settings.audit.key_sample,
    )
    most = fair_share(
        map(_cost, inputs),
        tasks=TASKS_PER_SLOT * parallelism,
        smallest=SMALLEST_TASK,
        largest=LARGEST_TASK,
    )
    return [
        AuditTask(
            inputs=together,
            records=records.get(topic, ()),
            replayed=replayed.get(topic, ()),
            partition_count=max(each.partition.partition for each in same) + 1,
            fits=fits.get(topic, {}),
            whole_transactions=settings.publish is Publish.WHOLE_TRANSACTIONS,
            lake=folder.lake,
            bounds=bounds,
        )
        for topic, same in _by_topic(inputs)
        for together in pack(same, cost=_cost, most=most)
    ]


def plan_transactions(
    folder: RunFolder, inputs: Sequence[PartitionInputs], settings: Settings
) -> list[TransactionTask]:
    """A task per file of `transactions`; torn ones are no fault where partitions are published each alone."""
    whole = settings.publish is Publish.WHOLE_TRANSACTIONS
    ranges = tuple(
        PublishedRange(
            partition=each.partition,
            first_offset=each.first_offset,
            end_offset=each.end_offset,
            late=each.late,
        )
        for each in inputs
        if whole and (each.late or each.first_offset < each.end_offset)
    )
    prefix = folder.key(Step.RESOLVE) + "/"
    return [
        TransactionTask(file=key.removeprefix(prefix), key=key, ranges=ranges, lake=folder.lake)
        for key in outputs_of(folder, Step.RESOLVE, TRANSACTIONS.file_prefix)
    ]


def _record_files(folder: RunFolder, below: str) -> Mapping[str, tuple[str, ...]]:
    """Keys of the files of every topic's table in the folder `below`, in the order of their rows."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    files = [
        (entry.topic, entry.file, step)
        for step, entry in final_listing(folder)
        if entry.topic is not None and entry.file is not None and entry.file.startswith(below)
    ]
    for topic, file, step in sorted(files):
        found[topic] += (folder.key(step, file),)
    return found


def _by_topic(inputs: Iterable[PartitionInputs]) -> Iterator[tuple[str, list[PartitionInputs]]]:
    for topic, same in groupby(inputs, lambda each: each.partition.topic):
        yield topic, list(same)


def _cost(each: PartitionInputs) -> int:
    return PARTITION_COST + each.indexed + each.end_offset - each.first_offset
