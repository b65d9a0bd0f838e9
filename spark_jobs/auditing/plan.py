"""How the audit's work is divided: neighbouring partitions of one topic share a task and its files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from spark_jobs.auditing.inputs import AuditTask, Bounds, PartitionInputs
from spark_jobs.auditing.partitioners import Fits
from spark_jobs.auditing.partitions import outputs_of
from spark_jobs.auditing.transaction_facts import PublishedRange, TransactionTask
from spark_jobs.config.settings import Publish, Settings
from spark_jobs.flow import Step
from spark_jobs.packing import fair_share, pack
from spark_jobs.storage.run_folder import RunFolder
from spark_jobs.storage.table_listing import read_listing
from spark_jobs.tables.materialise import RECORDS_FOLDER, REPLAYED_FOLDER

TRANSACTIONS = "transactions/"
PARTITION_COST = 10_000
"""What opening a partition's files costs, in rows that could be looked at meanwhile."""
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
    bounds = Bounds(
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
        for key in outputs_of(folder, Step.RESOLVE, TRANSACTIONS)
    ]


def _record_files(folder: RunFolder, below: str) -> Mapping[str, tuple[str, ...]]:
    """Keys of the files of every topic's table that stand `below`, in the order of their rows."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for entry in read_listing(folder, Step.MATERIALISE):
        if entry.topic is not None and entry.file is not None and entry.file.startswith(below):
            found[entry.topic] += (folder.key(Step.MATERIALISE, entry.file),)
    return found


def _by_topic(inputs: Iterable[PartitionInputs]) -> Iterator[tuple[str, list[PartitionInputs]]]:
    for topic, same in groupby(inputs, lambda each: each.partition.topic):
        yield topic, list(same)


def _cost(each: PartitionInputs) -> int:
    return PARTITION_COST + each.indexed + each.end_offset - each.first_offset
