"""Partitions of a log directory as `admit` and `resolve` hand them on, made the plain way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.inspect.stored_partition import read_partition
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.pipeline.materialise.job import ObjectPlace, PartitionPlan, TaskContext, WrittenFiles
from spark_jobs.pipeline.materialise.outcomes import SurveyTask, survey_partitions
from spark_jobs.pipeline.materialise.step import plan_files
from spark_jobs.pipeline.materialise.worker import DecodeTask, decode_files
from spark_jobs.tables.admit import BATCHES

DAY = date(2024, 5, 1)
FOLDER = "runs/r/materialise"
_OUTCOMES: "list[pa.Field[Any]]" = [
    pa.field("first_offset", pa.int64()),
    pa.field("outcome", pa.string()),
    pa.field("transactional_id", pa.string()),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A lake with the plans of some partitions."""

    lake: FileStore
    settings: Settings
    plans: tuple[PartitionPlan, ...]

    def materialise(self) -> tuple[WrittenFiles, ...]:
        """Both rounds of workers, without Spark."""
        chunks = survey_partitions(SurveyTask(plans=self.plans, lake=self.lake))
        surveyed = zip(self.plans, chunks, strict=True)
        plans = plan_files(surveyed, file_bytes=self.settings.limits.file_bytes)
        context = TaskContext(lake=self.lake, folder=FOLDER, settings=self.settings, run_date=DAY)
        return decode_files(DecodeTask(plans=tuple(plans), context=context))

    def rows(self, written: tuple[WrittenFiles, ...]) -> list[dict[str, Any]]:
        """The records of all files in order."""
        files = chain.from_iterable(each.files for each in written)
        tables = (read_table(self.lake, f"{FOLDER}/{file.output.path}") for file in files)
        return [row for table in tables for row in table.to_pylist()]


def settings_at(directory: Path, more: str = "") -> Settings:
    config = f"lake: lake\nsources: [{{name: broker, kind: broker-log, root: source}}]\n{more}"
    return parse_settings(config, name="test.yaml", base=directory)


def run_of(directories: list[Path], place: Path, more: str = "") -> RunData:
    """The partitions in `directories`, each a broker's, for a lake in `place`."""
    settings = settings_at(place, more)
    lake = FileStore(settings.lake)
    plans = []
    for directory in sorted(directories):
        segments = sorted(directory.glob("*.log"))
        plan = plan_partition(lake, "runs/r", directory, segments.index)
        places = tuple(
            ObjectPlace(
                order=order, store=str(directory), key=path.name, version="", source="s", path=path.name
            )
            for order, path in enumerate(segments)
        )
        plans.append(replace(plan, objects=places))
    return RunData(lake=lake, settings=settings, plans=tuple(plans))


def plan_partition(
    lake: ObjectStore, run: str, directory: Path, order_of: Callable[[Path], int]
) -> PartitionPlan:
    """Writes verdicts and outcomes below the key `run`; `order_of` numbers the segments."""
    log = read_partition(directory)
    assert log.topic is not None
    assert log.partition is not None
    name = f"{directory.name}.parquet"
    orders = np.repeat(
        [order_of(segment.path) for segment in log.segments],
        [segment.batches.rows for segment in log.segments],
    )
    first_offsets, outcomes = _transactions(log.batches)
    columns: dict[str, Any] = log.batches._asdict() | {
        "object_order": orders,
        "offset": log.batches.base_offset,
        "txn_first_offset": first_offsets,
        "control_type": log.batches.control_type,
        "verdict": pa.array(["accepted"] * orders.size, pa.string()),
        "kafka_error": pa.array(["NONE"] * orders.size, pa.string()),
        "source": pa.array(["broker"] * orders.size, pa.string()),
        "copy": np.zeros(orders.size, dtype=np.int32),
        "topic": pa.array([log.topic] * orders.size, pa.string()),
        "partition": np.full(orders.size, log.partition),
    }
    nulls = pa.nulls(orders.size)
    table = pa.table({field.name: columns.get(field.name, nulls) for field in BATCHES.schema})
    put_table(lake, f"{run}/admit", f"batches/{name}", table.cast(_nullable(BATCHES.schema)))
    outcome_table = pa.Table.from_pylist(outcomes, schema=pa.schema(_OUTCOMES))
    put_table(lake, f"{run}/resolve", f"outcomes/{name}", outcome_table)
    return PartitionPlan(
        partition=TopicPartition(log.topic, log.partition),
        first_offset=log.visibility.log_start_offset,
        end_offset=log.visibility.last_stable_offset,
        batches=f"{run}/admit/batches/{name}",
        outcomes=f"{run}/resolve/outcomes/{name}",
    )


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _transactions(batches: Any) -> tuple[list[int | None], list[dict[str, Any]]]:
    """Where each batch's transaction began, and what the markers made of each transaction."""
    opened: dict[int, int] = {}
    outcomes: dict[int, str] = {}
    firsts: list[int | None] = []
    for row in range(batches.rows):
        producer, attributes = int(batches.producer_id[row]), int(batches.attributes[row])
        firsts.append(None)
        if attributes & CONTROL_FLAG:
            if producer in opened and batches.control_type[row] in {0, 1}:
                outcomes[opened.pop(producer)] = "committed" if batches.control_type[row] else "aborted"
        elif attributes & TRANSACTIONAL_FLAG:
            firsts[-1] = opened.setdefault(producer, int(batches.base_offset[row]))
    outcomes |= dict.fromkeys(opened.values(), "open")
    return firsts, list(_outcome_rows(outcomes))


def _outcome_rows(outcomes: dict[int, str]) -> Iterator[dict[str, Any]]:
    for first_offset, outcome in sorted(outcomes.items()):
        yield {"first_offset": first_offset, "outcome": outcome, "transactional_id": f"txn-{first_offset}"}


def with_partition(run_data: RunData, number: int, **changes: Any) -> RunData:
    """The same run with another plan for its partition `number`."""
    plans = list(run_data.plans)
    plans[number] = replace(plans[number], **changes)
    return replace(run_data, plans=tuple(plans))
