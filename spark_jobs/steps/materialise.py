"""`materialise`: committed batches → files of records, not yet visible to anyone; no record meets the JVM.

The accepted log of captures is written here, too: its batches are in hand.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, groupby

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.context import RunContext, StepResult
from spark_jobs.flow import Step
from spark_jobs.materialising.accounts import TABLES as ACCOUNT_TABLES
from spark_jobs.materialising.accounts import AccountTask, account_for_partitions
from spark_jobs.materialising.partitions import find_places, read_accounts, read_partitions
from spark_jobs.materialising.plan import pack_accounts, pack_surveys, pack_tasks, plan_files
from spark_jobs.materialising.relay import RelayTask, relay_table
from spark_jobs.materialising.replayed import ReplayTask, decode_replayed
from spark_jobs.materialising.summaries import Chunk, PartitionPlan, TableFile, Workshop, Written
from spark_jobs.materialising.survey import SurveyTask, survey_partitions
from spark_jobs.materialising.worker import DecodeTask, decode_files
from spark_jobs.storage.manifest import Replay
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.table_listing import TableEntry, entries_of, put_listing
from spark_jobs.tables.table_names import folder_name

RELAYED = {"consumer_offsets": Step.RESOLVE, "gaps": Step.ADMIT, "transactions": Step.RESOLVE}
"""Tables that are published as earlier steps have made them."""

OwnFiles = Mapping[str, Sequence[TableFile]]
Surveyed = Sequence[tuple[PartitionPlan, Sequence[Chunk]]]


def run(context: RunContext) -> StepResult:
    """Write the run's share of every table; an unreadable batch is set aside, never a failed run."""
    workshop = workshop_of(context)
    places = find_places(context.folder, context.manifest, context.settings)
    plans = read_partitions(context.folder, places)
    topics = [plan for plan in plans if plan.partition.topic not in INTERNAL_TOPICS]
    internal = [plan for plan in plans if plan.partition.topic in INTERNAL_TOPICS]
    with ThreadPoolExecutor(2) as beside:
        relayed = beside.submit(relay, context, workshop)
        tasks = account_tasks(context, workshop, plans)
        accounted = beside.submit(context.run_tasks, account_for_partitions, tasks)
        surveyed = survey(context, (*topics, *map(_unshown, internal)))
        written = [*decode_again(context, workshop), *decode(context, workshop, surveyed)]
        corrected = account_tasks(context, workshop, plans, written)
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
    )


def workshop_of(context: RunContext) -> Workshop:
    """What the run's workers need."""
    return Workshop(
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

    One task's worth is done in the driver, beside what workers have to do already.
    """
    promising = [plan for plan in plans if plan.first_offset < plan.end_offset or plan.late or plan.segments]
    packed = pack_surveys(promising, context.spark.parallelism) if promising else ()
    tasks = [SurveyTask(plans=together, lake=context.lake) for together in packed]
    found = chain.from_iterable(context.run_tasks(survey_partitions, tasks, in_driver=len(tasks) == 1))
    return list(zip(promising, found, strict=True))


def decode(context: RunContext, workshop: Workshop, surveyed: Surveyed) -> list[Written]:
    """The records of all topics, in files; for none, Spark is not even started."""
    plans = plan_files(surveyed, file_bytes=context.settings.limits.file_bytes)
    if not plans:
        return []
    packed = pack_tasks(plans, context.spark.parallelism)
    tasks = [DecodeTask(plans=together, workshop=workshop) for together in packed]
    return list(chain.from_iterable(context.run_tasks(decode_files, tasks)))


def decode_again(context: RunContext, workshop: Workshop) -> list[Written]:
    """Replayed records of earlier runs, in files of their own."""
    by_topic = groupby(_decoded_again(context), key=lambda replay: replay.topic)
    tasks = [
        ReplayTask(topic=topic, replays=tuple(replays), workshop=workshop) for topic, replays in by_topic
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
    context: RunContext, workshop: Workshop, plans: Sequence[PartitionPlan], written: Sequence[Written] = ()
) -> list[AccountTask]:
    """The tables of all batches' outcomes; they need the batches that could not be decoded."""
    packed = pack_accounts(read_accounts(context.folder, plans, written))
    return [
        AccountTask(number=number, accounts=together, workshop=workshop)
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


def account_files(found: Sequence[OwnFiles], written: Sequence[Written]) -> OwnFiles:
    """What tasks have written, by table, and what decoding set aside."""
    files = {table: list(chain.from_iterable(each[table] for each in found)) for table in ACCOUNT_TABLES}
    files["quarantine"] += chain.from_iterable(each.quarantine for each in written)
    return files


def relay(context: RunContext, workshop: Workshop) -> OwnFiles:
    """The tables that earlier steps have made."""
    tasks = [
        RelayTask(table=table, keys=relayed_files(context, table, step), workshop=workshop)
        for table, step in RELAYED.items()
    ]
    return dict(zip(RELAYED, context.run_tasks(relay_table, tasks), strict=True))


def relayed_files(context: RunContext, table: str, step: Step) -> list[str]:
    """Keys of the table's files: one of its name, or those in a folder of its name."""
    done = context.folder.done(step)
    paths = [output.path for output in done.outputs] if done else []
    return [
        context.folder.key(step, path)
        for path in paths
        if path.startswith(f"{table}/") or path == f"{table}.parquet"
    ]


def topic_entries(
    context: RunContext, plans: Sequence[PartitionPlan], written: Sequence[Written]
) -> Iterator[TableEntry]:
    """The files of every topic's table; a topic without news is named, too."""
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


def messages_of(written: Sequence[Written]) -> Iterator[str]:
    """A sentence for every topic with records that could not be published."""
    lost: dict[str, Counter[str]] = defaultdict(Counter)
    for each in written:
        lost[each.plan.topic]["cannot be decoded"] += each.unreadable_records
        lost[each.plan.topic]["do not fit the topic's schema"] += each.unfit
    for topic, counts in sorted(lost.items()):
        if counts.total():
            reasons = " and ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
            yield f"{topic}: of the committed records {reasons}; they are in quarantine"


def outputs_of(written: Sequence[Written]) -> Iterator[OutputFile]:
    """Everything that workers wrote."""
    for each in written:
        yield from (file.output for file in each.files)
        yield from each.segments
        if each.unreadable is not None:
            yield each.unreadable.output


def counts_of(surveyed: Surveyed, written: Sequence[Written]) -> dict[str, int]:
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
