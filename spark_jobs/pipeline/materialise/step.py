"""`materialise`: committed batches → files of records, not yet published; no record passes the JVM.

It also writes the accepted log of captures, since it reads their batches.

Read on in: `job` (what tasks receive and return), `outcomes` (how much there is), `worker` (what a Spark task
does) with `batch_rows`, `decoding` and `record_table`; `own_tables` has further tasks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import read_segments
from spark_jobs.lake.manifest import Manifest, ManifestEntry, ObjectRole, Replay
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.lake.table_listing import TableEntry, entries_of, put_listing
from spark_jobs.pipeline.context import RunContext, StepResult, pack, spread
from spark_jobs.pipeline.materialise.batch_rows import place_of
from spark_jobs.pipeline.materialise.job import (
    FilePlan,
    ObjectPlace,
    PartitionChunks,
    PartitionPlan,
    RowChunk,
    TableFile,
    TaskContext,
    WrittenFiles,
)
from spark_jobs.pipeline.materialise.outcomes import SurveyTask, survey_partitions
from spark_jobs.pipeline.materialise.own_tables import TABLES as ACCOUNT_TABLES
from spark_jobs.pipeline.materialise.own_tables import (
    Account,
    AccountTask,
    RelayTask,
    account_for_partitions,
    relay_table,
)
from spark_jobs.pipeline.materialise.worker import DecodeTask, ReplayTask, decode_files, decode_replayed
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.resolve import CONSUMER_OFFSETS, RESOLVED_PARTITIONS, TRANSACTIONS
from spark_jobs.tables.states import INHERITED_OBJECTS
from spark_jobs.tables.table_names import folder_name

# The plan of files: neighbours of one topic together, independent of the cluster.

FILES_AT_LEAST = 8
SMALLEST_FILE = 32 * 2**20
"""A topic is divided so that several workers share it, unless its files became tiny."""

TASKS_PER_SLOT = 4
SMALLEST_TASK, LARGEST_TASK = 16 * 2**20, 256 * 2**20
SMALLEST_SURVEY = 32
ACCOUNT_ROWS, ACCOUNT_COST = 1 << 20, 4096
"""Rows of verdicts that share a file, and what opening a partition costs, in rows."""
FILE_COST = 2**20
"""What finishing a file costs, in bytes that could be decoded meanwhile."""

PlannedChunk = tuple[PartitionPlan, RowChunk]


def plan_files(
    surveyed: Iterable[tuple[PartitionPlan, Sequence[RowChunk]]], *, file_bytes: int
) -> list[FilePlan]:
    """The files of all topics; a partition's chunks stay in order, and partitions too."""
    in_order = sorted(surveyed, key=lambda each: each[0].partition)
    plans: list[FilePlan] = []
    for topic, partitions in groupby(in_order, key=lambda each: each[0].partition.topic):
        pieces = [(plan, chunk) for plan, chunks in partitions for chunk in chunks]
        for number, together in enumerate(divide(pieces, file_bytes)):
            plans.append(FilePlan(topic=topic, number=number, shares=tuple(_shares(together))))
    return plans


def divide(pieces: Sequence[PlannedChunk], file_bytes: int) -> Iterator[list[PlannedChunk]]:
    """The pieces of a topic, in order and in shares as equal as pieces allow; a segment is one piece.

    If files were filled one after the other, the last would be a small rest.
    """
    ends = list(accumulate(chunk.cost for _, chunk in pieces))
    count = number_of_files(ends[-1] if ends else 0, file_bytes)
    middles = (2 * end - chunk.cost for end, (_, chunk) in zip(ends, pieces, strict=True))
    shares = [middle * count // max(2 * ends[-1], 1) for middle in middles]
    for _, share in groupby(zip(shares, pieces, strict=True), key=itemgetter(0)):
        yield [piece for _, piece in share]


def number_of_files(total: int, file_bytes: int) -> int:
    """How many files a topic with `total` bytes of batches has.

    More than a few are a multiple of those: workers that share them end together.
    """
    count = -(-total // min(max(-(-total // FILES_AT_LEAST), SMALLEST_FILE), file_bytes))
    return count if count <= FILES_AT_LEAST else -(-count // FILES_AT_LEAST) * FILES_AT_LEAST


def pack_surveys(plans: Sequence[PartitionPlan], parallelism: int) -> Iterator[tuple[PartitionPlan, ...]]:
    """Partitions with about as many objects each, some for every slot of Spark's."""
    share = sum(map(_cost_of_survey, plans)) // (TASKS_PER_SLOT * parallelism)
    return pack(plans, cost=_cost_of_survey, most=max(share, SMALLEST_SURVEY))


def pack_accounts(accounts: Sequence[Account]) -> Iterator[tuple[Account, ...]]:
    """Partitions whose rows share files, independent of the cluster."""
    return pack(accounts, cost=lambda account: ACCOUNT_COST + account.rows, most=ACCOUNT_ROWS)


def pack_tasks(plans: Sequence[FilePlan], parallelism: int) -> Iterator[tuple[FilePlan, ...]]:
    """Neighbouring files together: a few tasks per slot of Spark's, none too small to be worth its start."""
    tasks = TASKS_PER_SLOT * parallelism
    return spread(plans, cost=_cost, tasks=tasks, smallest=SMALLEST_TASK, largest=LARGEST_TASK)


def _cost_of_survey(plan: PartitionPlan) -> int:
    return 1 + len(plan.objects) + len(plan.held)


def _cost(plan: FilePlan) -> int:
    return FILE_COST + plan.cost


def _shares(pieces: Iterable[PlannedChunk]) -> Iterator[PartitionChunks]:
    for _, group in groupby(pieces, key=lambda piece: piece[0].partition):
        together = list(group)
        plan, chunks = together[0][0], tuple(_joined(chunk for _, chunk in together))
        yield PartitionChunks(plan=_with_needed_objects(plan, chunks), chunks=chunks)


def _joined(chunks: Iterable[RowChunk]) -> Iterator[RowChunk]:
    """Chunks of the same rows as one: planning needs small ones, reading large ones."""
    for _, group in groupby(chunks, key=lambda chunk: (chunk.held, chunk.segment)):
        yield reduce(RowChunk.join, group)


def _with_needed_objects(plan: PartitionPlan, chunks: Sequence[RowChunk]) -> PartitionPlan:
    """A partition may have thousands of objects, a file needs a few of them."""
    current = [chunk for chunk in chunks if not chunk.held]
    first = min((chunk.first_object for chunk in current), default=0)
    last = max((chunk.last_object for chunk in current), default=-1)
    objects = tuple(place for place in plan.objects if first <= place.order <= last)
    return replace(plan, objects=objects, segments=())


# The partitions of the run, as `resolve` left them.

Places = Mapping[TopicPartition, Sequence[ObjectPlace]]


def read_partitions(folder: RunFolder, places: Places) -> tuple[PartitionPlan, ...]:
    """Every partition ever seen, also those of Kafka's own topics, and those without batches in this run."""
    table = read_table(folder.lake, folder.key(Step.RESOLVE, RESOLVED_PARTITIONS.file))
    rows, segments = table.select(RESOLVED_PARTITIONS.schema.names).to_pylist(), read_segments(folder)
    plans = (_plan(folder, row, places) for row in rows)
    return tuple(replace(plan, segments=segments.get(plan.partition, ())) for plan in plans)


def read_accounts(
    folder: RunFolder, plans: Sequence[PartitionPlan], written: Sequence[WrittenFiles]
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
    folder: RunFolder, written: Sequence[WrittenFiles]
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


# The step.

RELAYED = ((CONSUMER_OFFSETS, Step.RESOLVE), (GAPS, Step.ADMIT), (TRANSACTIONS, Step.RESOLVE))
"""Tables of earlier steps that are published unchanged."""

OwnFiles = Mapping[str, Sequence[TableFile]]
Surveyed = Sequence[tuple[PartitionPlan, Sequence[RowChunk]]]


def run(context: RunContext) -> StepResult:
    """Write the run's share of every table; an unreadable batch is set aside, never a failed run."""
    for_tasks = task_context(context)
    places = find_places(context.folder, context.manifest, context.settings)
    plans = read_partitions(context.folder, places)
    topics = [plan for plan in plans if plan.partition.topic not in INTERNAL_TOPICS]
    internal = [plan for plan in plans if plan.partition.topic in INTERNAL_TOPICS]
    with ThreadPoolExecutor(2) as threads:
        relayed = threads.submit(relay, context, for_tasks)
        tasks = account_tasks(context, for_tasks, plans)
        accounted = threads.submit(context.run_tasks, account_for_partitions, tasks)
        surveyed = survey(context, (*topics, *map(_unshown, internal)))
        written = [*decode_again(context, for_tasks), *decode(context, for_tasks, surveyed)]
        corrected = account_tasks(context, for_tasks, plans, written)
        found = correct(context, tasks, accounted.result(), corrected)
        own = {**account_files(found, written), **relayed.result()}
    entries = (*topic_entries(context, topics, written), *own_entries(context, own))
    return StepResult(
        outputs=(
            put_listing(context.folder, Step.MATERIALISE, entries),
            *outputs_of(written),
            *(file.output for files in own.values() for file in files),
        ),
        counts=counts_of(surveyed, written) | counts_of_replays(context),
        messages=tuple(messages_of(written)),
        obsolete=tuple(replaced_files(context, accounted.result(), own)),
    )


def task_context(context: RunContext) -> TaskContext:
    """The context of the run's Spark tasks."""
    return TaskContext(
        lake=context.lake,
        folder=context.folder.key(Step.MATERIALISE),
        settings=context.settings,
        run_date=context.folder.inputs.day,
    )


def _unshown(plan: PartitionPlan) -> PartitionPlan:
    """A partition of Kafka's own: nothing of it is published, but it may have a log to write."""
    return replace(plan, first_offset=0, end_offset=0, held=(), late=())


def survey(context: RunContext, plans: Sequence[PartitionPlan]) -> Surveyed:
    """How much each partition has to publish or to log, for those that have anything.

    A single task runs in the driver, while workers are busy.
    """
    promising = [plan for plan in plans if plan.first_offset < plan.end_offset or plan.late or plan.segments]
    packed = pack_surveys(promising, context.spark.parallelism) if promising else ()
    tasks = [SurveyTask(plans=together, lake=context.lake) for together in packed]
    found = chain.from_iterable(context.run_tasks(survey_partitions, tasks, in_driver=len(tasks) == 1))
    return list(zip(promising, found, strict=True))


def decode(context: RunContext, for_tasks: TaskContext, surveyed: Surveyed) -> list[WrittenFiles]:
    """The records of all topics, in files; for none, Spark is not even started."""
    plans = plan_files(surveyed, file_bytes=context.settings.limits.file_bytes)
    if not plans:
        return []
    packed = pack_tasks(plans, context.spark.parallelism)
    tasks = [DecodeTask(plans=together, context=for_tasks) for together in packed]
    return list(chain.from_iterable(context.run_tasks(decode_files, tasks)))


def decode_again(context: RunContext, for_tasks: TaskContext) -> list[WrittenFiles]:
    """Replayed records of earlier runs, in files of their own."""
    by_topic = groupby(_decoded_again(context), key=lambda replay: replay.topic)
    tasks = [
        ReplayTask(topic=topic, replays=tuple(replays), context=for_tasks) for topic, replays in by_topic
    ]
    return context.run_tasks(decode_replayed, tasks) if tasks else []


def _decoded_again(context: RunContext) -> list[Replay]:
    """By topic, as the manifest has them."""
    return [replay for replay in context.manifest.replays if replay.inherited]


def counts_of_replays(context: RunContext) -> dict[str, int]:
    """The count of replayed records; absent in a run without any."""
    wanted = sum(replay.records for replay in _decoded_again(context))
    return {"replayed": wanted} if wanted else {}


def account_tasks(
    context: RunContext,
    for_tasks: TaskContext,
    plans: Sequence[PartitionPlan],
    written: Sequence[WrittenFiles] = (),
) -> list[AccountTask]:
    """The tables of all batches' outcomes; they need the batches that could not be decoded."""
    packed = pack_accounts(read_accounts(context.folder, plans, written))
    return [
        AccountTask(number=number, accounts=together, context=for_tasks)
        for number, together in enumerate(packed)
    ]


def correct(
    context: RunContext, tasks: Sequence[AccountTask], found: Sequence[OwnFiles], corrected: list[AccountTask]
) -> list[OwnFiles]:
    """Decoding ran in parallel and assumed that every batch is readable; tasks with unreadable batches run
    again.
    """
    again = [new for old, new in zip(tasks, corrected, strict=True) if new.accounts != old.accounts]
    files = {task.number: each for task, each in zip(tasks, found, strict=True)}
    files |= {
        task.number: each
        for task, each in zip(again, context.run_tasks(account_for_partitions, again), strict=True)
    }
    return list(files.values())


def replaced_files(context: RunContext, first: Sequence[OwnFiles], own: OwnFiles) -> Iterator[str]:
    """Keys of files of tasks that ran again."""
    listed = {file.output.path for files in own.values() for file in files}
    written = (file.output.path for each in first for files in each.values() for file in files)
    yield from (context.folder.key(Step.MATERIALISE, path) for path in written if path not in listed)


def account_files(found: Sequence[OwnFiles], written: Sequence[WrittenFiles]) -> OwnFiles:
    """What tasks have written, by table, and what decoding set aside."""
    files = {table: list(chain.from_iterable(each[table] for each in found)) for table in ACCOUNT_TABLES}
    files["quarantine"] += chain.from_iterable(each.quarantine for each in written)
    return files


def relay(context: RunContext, for_tasks: TaskContext) -> OwnFiles:
    """The tables that earlier steps have made."""
    tasks = [
        RelayTask(table=table.name, keys=relayed_files(context, table, step), context=for_tasks)
        for table, step in RELAYED
    ]
    written = context.run_tasks(relay_table, tasks)
    return {task.table: files for task, files in zip(tasks, written, strict=True)}


def relayed_files(context: RunContext, table: Contract, step: Step) -> list[str]:
    """Keys of the table's files in the folder of `step`."""
    done = context.folder.done(step)
    paths = [output.path for output in done.outputs] if done else []
    return [context.folder.key(step, path) for path in paths if path.startswith(table.file_prefix)]


def topic_entries(
    context: RunContext, plans: Sequence[PartitionPlan], written: Sequence[WrittenFiles]
) -> Iterator[TableEntry]:
    """The files of every topic's table; a topic without new records is listed, too."""
    files: dict[str, list[tuple[OutputFile, int]]] = defaultdict(list)
    for each in written:
        files[each.plan.topic] += [(file.output, file.rows) for file in each.files]
    namespace = context.settings.catalog.topics
    for topic in sorted({plan.partition.topic for plan in plans}):
        yield from entries_of(namespace, folder_name(topic), files[topic], topic=topic)


def own_entries(context: RunContext, own: OwnFiles) -> Iterator[TableEntry]:
    """The files of Onceover's own tables."""
    for table, files in sorted(own.items()):
        pairs = [(file.output, file.rows) for file in files]
        yield from entries_of(context.settings.catalog.namespace, table, pairs)


def messages_of(written: Sequence[WrittenFiles]) -> Iterator[str]:
    """A sentence for every topic with records that could not be published."""
    lost: dict[str, Counter[str]] = defaultdict(Counter)
    for each in written:
        lost[each.plan.topic]["cannot be decoded"] += each.unreadable_records
        lost[each.plan.topic]["do not fit the topic's schema"] += each.unfit
    for topic, counts in sorted(lost.items()):
        if counts.total():
            reasons = " and ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
            yield f"{topic}: of the committed records {reasons}; they are in quarantine"


def outputs_of(written: Sequence[WrittenFiles]) -> Iterator[OutputFile]:
    """Everything that workers wrote."""
    for each in written:
        yield from (file.output for file in each.files)
        yield from each.segments
        if each.unreadable is not None:
            yield each.unreadable.output


def counts_of(surveyed: Surveyed, written: Sequence[WrittenFiles]) -> dict[str, int]:
    """None is lost: these and `replayed` give the same sum on both sides.

    `claimed` + `legacy` + `replayed` = `records` + `hidden` + `unreadable_records` + `unfit`.
    """
    chunks = [chunk for _, chunks in surveyed for chunk in chunks]
    return {
        "batches": sum(chunk.batches for chunk in chunks),
        "bytes": sum(chunk.bytes for chunk in chunks),
        "claimed": sum(chunk.records for chunk in chunks),
        "legacy": sum(each.legacy for each in written),
        "records": sum(each.records for each in written),
        "hidden": sum(each.hidden for each in written),
        "unreadable": sum(each.unreadable_batches for each in written),
        "unreadable_records": sum(each.unreadable_records for each in written),
        "unfit": sum(each.unfit for each in written),
        "files": sum(len(each.files) for each in written),
    }
