"""`materialise`: committed batches → files of records, not yet visible to anyone; no record meets the JVM."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from spark_jobs.flow import Step
from spark_jobs.materialising.partitions import find_places, read_partitions
from spark_jobs.materialising.plan import pack_surveys, pack_tasks, plan_files
from spark_jobs.materialising.summaries import Chunk, PartitionPlan, Workshop, Written
from spark_jobs.materialising.survey import SurveyTask, survey_partitions
from spark_jobs.materialising.worker import DecodeTask, decode_files
from spark_jobs.steps.context import RunContext, StepResult
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.table_listing import TableEntry, entries_of, put_listing
from spark_jobs.tables.table_names import table_name

Surveyed = Sequence[tuple[PartitionPlan, Sequence[Chunk]]]


def run(context: RunContext) -> StepResult:
    """Write the run's share of every table; an unreadable batch is set aside, never a failed run."""
    plans = read_partitions(context.folder, find_places(context.folder, context.manifest, context.settings))
    surveyed = survey(context, plans)
    written = decode(context, surveyed)
    listing = put_listing(context.folder, Step.MATERIALISE, topic_entries(context, plans, written))
    return StepResult(
        outputs=(listing, *outputs_of(written)),
        counts=counts_of(surveyed, written),
    )


def survey(context: RunContext, plans: Sequence[PartitionPlan]) -> Surveyed:
    """How much each partition has to publish, for those that have anything."""
    promising = [plan for plan in plans if plan.first_offset < plan.end_offset or plan.late]
    packed = pack_surveys(promising, context.spark.parallelism) if promising else ()
    tasks = [SurveyTask(plans=together, lake=context.lake) for together in packed]
    found = chain.from_iterable(context.run_tasks(survey_partitions, tasks))
    return list(zip(promising, found, strict=True))


def decode(context: RunContext, surveyed: Surveyed) -> list[Written]:
    """The records of all topics, in files; for none, Spark is not even started."""
    plans = plan_files(surveyed, file_bytes=context.settings.limits.file_bytes)
    if not plans:
        return []
    workshop = Workshop(
        lake=context.lake,
        folder=context.folder.key(Step.MATERIALISE),
        settings=context.settings,
        run_date=context.folder.inputs.day,
    )
    packed = pack_tasks(plans, context.spark.parallelism)
    tasks = [DecodeTask(plans=together, workshop=workshop) for together in packed]
    return list(chain.from_iterable(context.run_tasks(decode_files, tasks)))


def topic_entries(
    context: RunContext, plans: Sequence[PartitionPlan], written: Sequence[Written]
) -> Iterator[TableEntry]:
    """The files of every topic's table; a topic without news is named, too."""
    files: dict[str, list[tuple[OutputFile, int]]] = defaultdict(list)
    for each in written:
        files[each.plan.table] += [(file.output, file.rows) for file in each.files]
    namespace = context.settings.catalog.topics
    for topic in sorted({plan.partition.topic for plan in plans}):
        table = table_name(topic)
        yield from entries_of(namespace, table, files[table], topic=topic)


def outputs_of(written: Sequence[Written]) -> Iterator[OutputFile]:
    """Everything that workers wrote."""
    for each in written:
        yield from (file.output for file in each.files)
        if each.unreadable is not None:
            yield each.unreadable.output


def counts_of(surveyed: Surveyed, written: Sequence[Written]) -> dict[str, int]:
    """Nothing is lost: `claimed` by headers + `legacy` = `records` + `hidden` + `unreadable_records`."""
    chunks = [chunk for _, chunks in surveyed for chunk in chunks]
    return {
        "batches": sum(chunk.batches for chunk in chunks),
        "bytes": sum(chunk.bytes for chunk in chunks),
        "claimed": sum(chunk.records for chunk in chunks),
        "legacy": sum(each.legacy for each in written),
        "records": sum(each.records for each in written),
        "hidden": sum(each.hidden for each in written),
        "unreadable": sum(each.unreadable.rows for each in written if each.unreadable),
        "unreadable_records": sum(each.unreadable_records for each in written),
        "files": sum(len(each.files) for each in written),
    }
