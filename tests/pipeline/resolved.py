"""Runs up to `resolve`, ready for `materialise`: a log directory, judged and resolved by the plain rules."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.accepted_log import put_segments
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.manifest import Manifest, ManifestEntry, ObjectRole
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.run_folder import EMPTY_STATE, MANIFEST, RunFolder, RunInputs
from spark_jobs.lake.states import PartitionState, put_state
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.materialise import step as materialise
from spark_jobs.pipeline.materialise.job import PartitionPlan
from spark_jobs.pipeline.publish import step as publish
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from tests.in_process import InProcess
from tests.pipeline.materialise.logs import plan_partition


def resolved_run(
    settings: Settings,
    directories: Sequence[Path],
    *,
    day: date,
    state_in: str = EMPTY_STATE,
    spark: Spark | None = None,
    change: Callable[[PartitionPlan], PartitionPlan] = lambda plan: plan,
) -> RunContext:
    """A run of `directories`, each a broker's partition below the source's root, up to `resolve`."""
    lake = open_lake(settings)
    manifest = _manifest(settings, directories, day)
    inputs = RunInputs(day=day, manifest=manifest.digest, config=settings.digest, state_in=state_in)
    folder = RunFolder(lake, inputs)
    folder.create()
    folder.finish(Step.STAGE, outputs=[folder.put(Step.STAGE, MANIFEST, manifest.to_bytes())])
    orders = {entry.path: entry.order for entry in manifest.entries}
    root = Path(settings.sources[0].root)
    plans = [
        change(
            plan_partition(
                lake, f"runs/{folder.run_id}", directory, lambda path: orders[str(path.relative_to(root))]
            )
        )
        for directory in sorted(directories)
    ]
    rows = [_row(folder, plan) for plan in plans]
    table = pa.Table.from_pylist(rows, schema=_nullable(RESOLVED_PARTITIONS.schema))
    for step in (Step.INDEX, Step.REBUILD):
        folder.finish(step, outputs=())
    state = put_state(lake, PartitionState())
    judged = [
        {name: row[name] for name in ("topic", "partition", "batches")} | {"rows": 1, "state": state}
        for row in rows
    ]
    admitted = pa.Table.from_pylist(judged, schema=_nullable(ADMITTED_PARTITIONS.schema))
    folder.finish(
        Step.ADMIT,
        outputs=[
            put_table(lake, folder.key(Step.ADMIT), ADMITTED_PARTITIONS.file, admitted),
            put_segments(folder, ()),
        ],
    )
    resolved = put_table(lake, folder.key(Step.RESOLVE), RESOLVED_PARTITIONS.file, table)
    folder.finish(Step.RESOLVE, outputs=[resolved], state="resolved")
    return context_of(settings, folder, spark or InProcess())


def context_of(settings: Settings, folder: RunFolder, spark: Spark) -> RunContext:
    return RunContext(settings=settings, folder=folder, chain=Chain(), spark=spark)


def do(context: RunContext, step: Step, function: Callable[[RunContext], StepResult]) -> StepResult:
    """One step as the driver does it."""
    context.folder.begin(step)
    result = function(context)
    context.folder.finish(step, outputs=result.outputs, counts=result.counts, state=result.state)
    return result


def do_until_published(context: RunContext) -> dict[Step, StepResult]:
    """`materialise` and `publish`, with an audit that has no objection."""
    made = do(context, Step.MATERIALISE, materialise.run)
    do(context, Step.AUDIT, lambda _: StepResult(outputs=()))
    return {Step.MATERIALISE: made, Step.PUBLISH: do(context, Step.PUBLISH, publish.run)}


def _manifest(settings: Settings, directories: Sequence[Path], day: date) -> Manifest:
    root = Path(settings.sources[0].root)
    files = sorted(file for directory in directories for file in directory.glob("*.log"))
    entries = tuple(
        ManifestEntry(
            order=order,
            source=settings.sources[0].name,
            role=ObjectRole.LOG,
            topic=file.parent.name.rpartition("-")[0],
            partition=int(file.parent.name.rpartition("-")[2]),
            path=str(file.relative_to(root)),
            size=file.stat().st_size,
            sha256="",
            referenced=True,
        )
        for order, file in enumerate(files)
    )
    return Manifest(day=day, entries=entries)


def _row(folder: RunFolder, plan: PartitionPlan) -> dict[str, Any]:
    return {
        "topic": plan.partition.topic,
        "partition": plan.partition.partition,
        "first_offset": plan.first_offset,
        "end_offset": plan.end_offset,
        "batches": plan.batches.removeprefix(folder.key(Step.ADMIT) + "/"),
        "outcomes": plan.outcomes.removeprefix(folder.key(Step.RESOLVE) + "/"),
        "held": list(plan.held),
        "late": list(plan.late),
    }


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
