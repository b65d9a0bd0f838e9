"""Runs up to `admit`, and what is in the lake afterwards."""

from datetime import date
from typing import Any

import pyarrow as pa
from rich.console import Console

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import read_segments, segment_digest
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.states import PartitionState, get_state, read_states
from spark_jobs.pipeline.materialise.job import PartitionPlan, TaskContext
from spark_jobs.pipeline.materialise.outcomes import SurveyTask, survey_partitions
from spark_jobs.pipeline.materialise.step import find_places, plan_files
from spark_jobs.pipeline.materialise.worker import DecodeTask, decode_files
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, BATCHES, GAPS
from tests.in_process import InProcess
from tests.pipeline.runs import Place
from tests.pipeline.runs import day as day_of

ORDERS = TopicPartition("orders", 0)


def admit(
    place: Place, day: int | date, *, spark: Spark | None = None, until: Step = Step.ADMIT
) -> "AdmittedRun":
    """The run of that day, up to `admit` and in this process unless `until` and `spark` are given."""
    outcome = execute_run(
        place.settings,
        day_of(day) if isinstance(day, int) else day,
        until=until,
        spark=spark or InProcess(),
        progress=RunProgress(Console(quiet=True)),
    )
    return AdmittedRun(place, outcome.run_id)


class AdmittedRun:
    """What a run left behind."""

    def __init__(self, place: Place, run_id: str) -> None:
        self.lake, self.settings, self.run_id = place.lake, place.settings, run_id

    def key(self, step: Step, *parts: str) -> str:
        return step_key(self.run_id, step, *parts)

    def table(self, step: Step, name: str) -> pa.Table:
        return read_table(self.lake, self.key(step, name))

    def partitions(self) -> dict[TopicPartition, dict[str, Any]]:
        rows = self.table(Step.ADMIT, ADMITTED_PARTITIONS.file).to_pylist()
        return {TopicPartition(row["topic"], row["partition"]): row for row in rows}

    def batches(self, partition: TopicPartition = ORDERS) -> list[dict[str, Any]]:
        """The verdicts in the order of their file."""
        rows: list[dict[str, Any]] = self.table(Step.ADMIT, BATCHES.file_of(partition=partition)).to_pylist()
        return rows

    def verdicts(self, partition: TopicPartition = ORDERS) -> list[str]:
        return [row["verdict"] for row in self.batches(partition)]

    def offsets(self, partition: TopicPartition = ORDERS) -> list[int | None]:
        return [row["offset"] for row in self.batches(partition)]

    def transactions(self) -> list[dict[str, Any]]:
        found = {row["transactions"] for row in self.partitions().values() if row["transactions"]}
        tables = [self.table(Step.ADMIT, name).to_pylist() for name in sorted(found)]
        return [row for rows in tables for row in rows]

    def gap_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(Step.ADMIT, GAPS.file).to_pylist()
        return rows

    def gaps(self) -> list[tuple[int, int]]:
        return [(row["first_offset"], row["last_offset"]) for row in self.gap_rows()]

    def states(self) -> dict[TopicPartition, str]:
        return read_states(self.lake, self.run_id, Step.ADMIT)

    def state(self, partition: TopicPartition = ORDERS) -> PartitionState:
        return get_state(self.lake, self.states()[partition])

    def log(self, partition: TopicPartition = ORDERS) -> dict[str, bytes]:
        """The files of the accepted log, by name; segments as `materialise` would write them."""
        found = self.lake.list(self.key(Step.ADMIT, "log", str(partition)))
        files = {each.key.rpartition("/")[2]: self.lake.read(each.key) for each in found}
        return dict(sorted((files | self._segments(partition)).items()))

    def _segments(self, partition: TopicPartition) -> dict[str, bytes]:
        folder = RunFolder(self.lake, read_inputs(self.lake, self.run_id))
        segments = read_segments(folder).get(partition, ())
        if not segments:
            return {}
        places = find_places(folder, read_run_manifest(self.lake, self.run_id), self.settings)
        plan = PartitionPlan(
            partition=partition,
            first_offset=0,
            end_offset=0,
            batches=self.key(Step.ADMIT, BATCHES.file_of(partition=partition)),
            objects=tuple(places.get(partition, ())),
            segments=segments,
        )
        [chunks] = survey_partitions(SurveyTask(plans=(plan,), lake=self.lake))
        context = TaskContext(
            lake=self.lake, folder=f"logs/{self.run_id}", settings=self.settings, run_date=folder.inputs.day
        )
        plans = tuple(plan_files([(plan, chunks)], file_bytes=2**30))
        written = decode_files(DecodeTask(plans=plans, context=context))
        outputs = [output for each in written for output in each.segments]
        for output in outputs:
            path = self.lake.local_path(f"{context.folder}/{output.path}")
            assert path is None or segment_digest(path) == output.digest
        return {
            each.path.rpartition("/")[2]: self.lake.read(f"{context.folder}/{each.path}") for each in outputs
        }
