"""`publish`: audited files become visible: one Iceberg commit per table, safe to repeat at any point.

The driver does it all; the commits are in `lake.iceberg`.
"""

import pyarrow as pa
from pyiceberg.catalog import Catalog

from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import check_holdings, leftover_targets
from spark_jobs.lake.iceberg.run_targets import (
    LISTED_BY,
    finished_before,
    run_target,
    stamp_of,
    table_targets,
)
from spark_jobs.lake.iceberg.target import RunStamp, TableTarget
from spark_jobs.lake.iceberg.topic_tables import TopicTables, publish_target
from spark_jobs.lake.ledger import runs_of
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder, StepDone
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.tables.publish import OWN_TABLES, RUNS


def run(context: RunContext) -> StepResult:
    """Bring every table to hold this run; the row in `runs` comes last, when all others are there."""
    context.folder.make_durable(*LISTED_BY)
    done = finished_before(context.folder, Step.PUBLISH)
    stamp = stamp_of(context.folder, done)
    run_file = put_run(context.folder, stamp, done)
    settings, folder = context.settings, context.folder
    with open_catalog(settings) as catalog:
        check_holdings(catalog, settings, context.lake, context.chain, but=stamp.day)
        targets = [*table_targets(settings, folder), run_target(settings, folder)]
        emptied = replaced_targets(context, catalog, targets)  # not counted: a second attempt finds none
        topics = TopicTables(catalog, settings.catalog.topics)
        for number, target in enumerate([*emptied, *targets], start=1):
            publish_target(catalog, topics, target, stamp)
            context.on_progress(f"publish: {number} of {len(emptied) + len(targets)} tables")
    return StepResult(
        outputs=(run_file,),
        counts={
            "tables": len(targets),
            "files": sum(len(target.files) for target in targets),
            "rows": sum(target.rows for target in targets),
        },
    )


def replaced_targets(context: RunContext, catalog: Catalog, targets: list[TableTarget]) -> list[TableTarget]:
    """Tables that another run of the date has rows in and this one has not: they lose them.

    The other run need not be final: it may have failed while it published, before its date was restaged.
    """
    inputs = context.folder.inputs
    runs = {entry.run_id for entry in context.chain.entries if entry.day == inputs.day}
    runs |= {line.run_id for line in runs_of(context.lake, inputs.day)}
    if not runs - {inputs.run_id}:
        return []
    topics = {target.topic for target in targets if target.topic is not None}
    own = {target.name for target in targets if target.topic is None}
    return list(leftover_targets(catalog, context.settings, inputs.day, topics, own))


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
    return put_table(folder.lake, folder.key(Step.PUBLISH), RUNS.file, table)
