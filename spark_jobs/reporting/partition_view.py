"""The partitions of a run as pages show them: what came, what became of it, how far readers get."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import Verdict, VerdictGroup
from spark_jobs.reporting.batch_counts import PLAIN, Producers, count_batches, merge
from spark_jobs.reporting.headline import Row
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.site_files import NamedData, topic_code
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.audit import PARTITION_FACTS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS

READERS = 8

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition with batches in this run; `file` holds their verdicts, below the folder of admit."""

    topic: str
    partition: int
    file: str
    verdicts: dict[str, int]
    records: int
    start_offset: int
    end_offset: int
    producers: int
    lag: int
    undecided: int
    held: int

    @property
    def rows(self) -> int:
        return sum(self.verdicts.values())

    @property
    def troubled(self) -> int:
        """Batches that were neither taken nor merely another copy's."""
        return self.rows - sum(self.verdicts.get(verdict, 0) for verdict in PLAIN)

    def shown(self) -> list[Any]:
        """Its cells, in the order of `COLUMNS`."""
        return [
            self.partition, self.verdicts, self.records, self.start_offset, self.end_offset,
            self.producers, self.lag, self.undecided, self.held,
        ]  # fmt: skip


COLUMNS = (
    "partition", "verdicts", "records", "start_offset", "end_offset", "producers", "lag", "undecided", "held",
)  # fmt: skip


def partition_views(tables: RunTables, producers: Producers) -> list[PartitionView]:
    """The partitions of the run; counts producers with problems into `producers`."""
    facts = _by_partition(tables, Step.AUDIT, PARTITION_FACTS.file)
    resolved = _by_partition(tables, Step.RESOLVE, RESOLVED_PARTITIONS.file)
    admitted = _by_partition(tables, Step.ADMIT, ADMITTED_PARTITIONS.file)
    views = []
    with ThreadPoolExecutor(READERS) as readers:
        counted = readers.map(partial(_count, tables), admitted.values())
        for (key, row), (verdicts, found) in zip(admitted.items(), counted, strict=True):
            merge(producers, found)
            file = tables.key(Step.ADMIT, row["batches"])
            views.append(_view(row, facts.get(key, {}), resolved.get(key, {}), file, verdicts))
    return views


def _count(tables: RunTables, row: Row) -> tuple[dict[str, int], Producers]:
    """What became of the partition's batches; where all were taken, nothing has to be read."""
    if row["rows"] == row[VerdictGroup.ACCEPTED]:
        return ({Verdict.ACCEPTED.value: row["rows"]} if row["rows"] else {}), {}
    if not tables.has(Step.ADMIT, row["batches"]):
        return {}, {}  # of an expired run, whose table has them still
    name = str(TopicPartition(row["topic"], row["partition"]))
    return count_batches(tables.lake, tables.key(Step.ADMIT, row["batches"]), name)


def _view(row: Row, facts: Row, resolved: Row, file: str, verdicts: dict[str, int]) -> PartitionView:
    return PartitionView(
        topic=row["topic"],
        partition=row["partition"],
        file=file,
        verdicts=dict(verdicts),
        records=facts.get("rows", 0),
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        producers=row["producers"],
        lag=resolved.get("lag", 0),
        undecided=resolved.get("undecided", 0),
        held=resolved.get("held_batches", 0),
    )


def _by_partition(tables: RunTables, step: Step, path: str) -> dict[Key, Row]:
    return {(row["topic"], row["partition"]): row for row in tables.rows(step, path)}


def partition_files(run_id: str, views: list[PartitionView]) -> Iterator[NamedData]:
    """What the heat map shows: rows name their topic by its place in the list."""
    topics = sorted({view.topic for view in views})
    places = {topic: place for place, topic in enumerate(topics)}
    yield (
        f"run/{run_id}/partitions",
        {
            "columns": ["topic", *COLUMNS],
            "topics": [{"name": topic, "code": topic_code(topic)} for topic in topics],
            "rows": [[places[view.topic], *view.shown()] for view in views],
        },
    )
