"""`publish`: audited files become visible: one Iceberg commit per table, safe to repeat at any point."""

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.catalog import Catalog

from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS, Step
from spark_jobs.steps.context import RunContext, StepResult
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.commits import publish_table
from spark_jobs.storage.iceberg.leftovers import leftover_targets
from spark_jobs.storage.iceberg.target import DataFile, RunStamp, TableTarget
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.run_folder import OutputFile, RunFolder, StepDone, combine_states
from spark_jobs.storage.table_listing import TableEntry, read_listing
from spark_jobs.storage.topic_contract import topic_contract
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.own_tables import OWN_TABLES
from spark_jobs.tables.runs import RUNS

LISTED_BY = (Step.MATERIALISE, Step.AUDIT)
"""The steps that make files for tables."""
RUN_FILE = "runs.parquet"
PARTITIONS = "partitions.parquet"

TableName = tuple[str, str]


def run(context: RunContext) -> StepResult:
    """Bring every table to hold this run; the row in `runs` comes last, when all others are there."""
    context.folder.settle(*LISTED_BY)
    done = finished_before(context.folder, Step.PUBLISH)
    stamp = stamp_of(context.folder, done)
    run_file = put_run(context.folder, stamp, done)
    with open_catalog(context.settings) as catalog:
        targets = [*table_targets(context), run_target(context, run_file)]
        emptied = replaced_targets(context, catalog, targets)  # not counted: a second attempt finds none
        for number, target in enumerate([*emptied, *targets], start=1):
            publish_table(catalog, target, stamp)
            context.tell(f"publish: {number} of {len(emptied) + len(targets)} tables")
    return StepResult(
        outputs=(run_file,),
        counts={
            "tables": len(targets),
            "files": sum(len(target.files) for target in targets),
            "rows": sum(target.rows for target in targets),
        },
    )


def replaced_targets(context: RunContext, catalog: Catalog, targets: list[TableTarget]) -> list[TableTarget]:
    """Tables that another run of the date has rows in and this one has not: they lose them."""
    inputs = context.folder.inputs
    if not any(entry.day == inputs.day and entry.run_id != inputs.run_id for entry in context.chain.entries):
        return []
    known = {target.name for target in targets}
    return list(leftover_targets(catalog, context.settings, inputs.day, known))


def finished_before(folder: RunFolder, step: Step) -> list[StepDone]:
    """The steps that this one builds upon."""
    return [done for done in folder.steps_done() if STEPS.index(done.step) < STEPS.index(step)]


def stamp_of(folder: RunFolder, done: list[StepDone]) -> RunStamp:
    """What every snapshot says of the run."""
    inputs = folder.inputs
    return RunStamp(
        run_id=inputs.run_id,
        day=inputs.day,
        manifest=inputs.manifest,
        config=inputs.config,
        state_in=inputs.state_in,
        state_out=combine_states({each.step: each.state for each in done}),
    )


def put_run(folder: RunFolder, stamp: RunStamp, done: list[StepDone]) -> OutputFile:
    """The run's row in the table `runs`."""
    row = {
        "run_id": stamp.run_id,
        "manifest": stamp.manifest,
        "config": stamp.config,
        "state_in": stamp.state_in,
        "state_out": stamp.state_out,
        "counts": [
            {"step": each.step.value, "name": name, "count": count}
            for each in done
            for name, count in sorted(each.counts.items())
        ],
        "run_date": stamp.day,
    }
    schema = OWN_TABLES[RUNS.name].schema
    table = pa.Table.from_pylist([row], schema=schema)
    return put_table(folder.lake, folder.key(Step.PUBLISH), RUN_FILE, table)


def table_targets(context: RunContext) -> Iterator[TableTarget]:
    """All tables but `runs`, in order of their names."""
    listed: dict[TableName, list[tuple[Step, TableEntry]]] = defaultdict(list)
    for step in LISTED_BY:
        for entry in read_listing(context.folder, step):
            listed[entry.namespace, entry.table].append((step, entry))
    next_offsets = read_next_offsets(context.folder)
    for (namespace, _), entries in sorted(listed.items()):
        topic = entries[0][1].topic
        yield TableTarget(
            namespace=namespace,
            contract=contract_of(context.settings, entries[0][1]),
            files=tuple(data_files(context.folder, entries)),
            topic=topic,
            next_offsets=next_offsets[topic] if topic is not None else {},
        )


def contract_of(settings: Settings, entry: TableEntry) -> Contract:
    """What the table promises."""
    return OWN_TABLES[entry.table] if entry.topic is None else topic_contract(settings, entry.topic)


def data_files(folder: RunFolder, entries: list[tuple[Step, TableEntry]]) -> Iterator[DataFile]:
    """The files by their address."""
    for step, entry in entries:
        if entry.file is not None:
            yield DataFile(location=folder.lake.url_of(folder.key(step, entry.file)), rows=entry.rows)


def run_target(context: RunContext, file: OutputFile) -> TableTarget:
    """The table `runs` with this run in it."""
    location = context.lake.url_of(context.folder.key(Step.PUBLISH, file.path))
    return TableTarget(
        namespace=context.settings.catalog.namespace,
        contract=OWN_TABLES[RUNS.name],
        files=(DataFile(location=location, rows=1),),
    )


def read_next_offsets(folder: RunFolder) -> dict[str, dict[int, int]]:
    """For every topic and partition where the next night's records begin."""
    table = read_table(folder.lake, folder.key(Step.RESOLVE, PARTITIONS))
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "end_offset"))
    offsets: dict[str, dict[int, int]] = defaultdict(dict)
    for topic, partition, end_offset in zip(*columns, strict=True):
        offsets[topic][partition] = end_offset
    return offsets
