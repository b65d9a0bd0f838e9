"""The partitions of a run as `resolve` left them, with the objects that their batches are in."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.materialising.accounts import Account
from spark_jobs.materialising.sources import place_of
from spark_jobs.materialising.summaries import ObjectPlace, PartitionPlan, Written
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import Manifest, ManifestEntry, ObjectRole
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.planned_segments import read_segments
from spark_jobs.storage.run_folder import RunFolder
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import INHERITED_OBJECTS

Places = Mapping[TopicPartition, Sequence[ObjectPlace]]


def read_partitions(folder: RunFolder, places: Places) -> tuple[PartitionPlan, ...]:
    """Every partition ever seen, those of Kafka's own topics too, whether it has news or not."""
    table = read_table(folder.lake, folder.key(Step.RESOLVE, RESOLVED_PARTITIONS.file))
    rows, segments = table.select(RESOLVED_PARTITIONS.schema.names).to_pylist(), read_segments(folder)
    plans = (_plan(folder, row, places) for row in rows)
    return tuple(replace(plan, segments=segments.get(plan.partition, ())) for plan in plans)


def read_accounts(
    folder: RunFolder, plans: Sequence[PartitionPlan], written: Sequence[Written]
) -> tuple[Account, ...]:
    """The partitions with verdicts in this run, with the results of decoding."""
    rows = read_table(folder.lake, folder.key(Step.ADMIT, ADMITTED_PARTITIONS.file)).to_pylist()
    admitted = {TopicPartition(row["topic"], row["partition"]): row for row in rows}
    unreadable = _unreadable_files(folder, written)
    return tuple(
        Account(
            plan=plan,
            rows=admitted[plan.partition]["rows"],
            state=admitted[plan.partition]["state"],
            unreadable=tuple(unreadable.get(plan.partition, ())),
        )
        for plan in plans
        if plan.batches
    )


def find_places(folder: RunFolder, manifest: Manifest, settings: Settings) -> Places:
    """The staged objects of each partition: the run's own and inherited ones."""
    found: dict[TopicPartition, list[ObjectPlace]] = defaultdict(list)
    for entry in (*_inherited_entries(folder), *manifest.batches):
        found[TopicPartition(entry.topic, entry.partition)].append(place_of(settings, entry))
    return found


def _plan(folder: RunFolder, row: dict[str, Any], places: Places) -> PartitionPlan:
    partition = TopicPartition(row["topic"], row["partition"])
    return PartitionPlan(
        partition=partition,
        first_offset=row["first_offset"],
        end_offset=row["end_offset"],
        batches=_key(folder, Step.ADMIT, row["batches"]),
        outcomes=_key(folder, Step.RESOLVE, row["outcomes"]),
        held=tuple(row["held"]),
        late=tuple(row["late"]),
        objects=tuple(places.get(partition, ())),
    )


def _unreadable_files(
    folder: RunFolder, written: Sequence[Written]
) -> Mapping[TopicPartition, Sequence[str]]:
    found: dict[TopicPartition, list[str]] = defaultdict(list)
    for each in written:
        if each.unreadable is not None:
            for share in each.plan.shares:
                key = folder.key(Step.MATERIALISE, each.unreadable.output.path)
                found[share.plan.partition].append(key)
    return found


def _key(folder: RunFolder, step: Step, path: str | None) -> str:
    return folder.key(step, path) if path else ""


def _inherited_entries(folder: RunFolder) -> Iterator[ManifestEntry]:
    key = folder.key(Step.REBUILD, INHERITED_OBJECTS.file)
    if folder.lake.stat(key) is not None:
        rows: Iterable[dict[str, Any]] = read_table(folder.lake, key).to_pylist()
        for row in rows:
            order, role = row.pop("object_order"), ObjectRole(row.pop("role"))
            yield ManifestEntry(order=order, role=role, **row)
