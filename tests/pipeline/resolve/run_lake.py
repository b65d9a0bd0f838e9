"""Runs of a lake, run until `resolve` by the real steps, and what each of them publishes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import TRANSACTION_STATE
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import write_marker
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatchHeader
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.formats.transaction_state import TransactionLogKey, write_key, write_value
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.inherited_rows import get_inherited
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import MESSAGES
from spark_jobs.lake.stores import open_lake
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from tests.in_process import InProcess

FIRST_DAY = date(2024, 5, 1)
DAY_MS = 86_400_000
SEGMENT = "00000000000000000000.log"
BROKER_LOG = """
lake: lake
publish: whole_transactions
kafka: {transaction_state_partitions: 1}
sources:
  - {name: broker, kind: broker-log, root: broker}
"""

COPY_TIMES = """{{"format": 1, "copied": [
  {{"path": "", "started_at": "{data}", "finished_at": "{data}"}},
  {{"path": "__transaction_state-", "started_at": "{coordinator}", "finished_at": "{coordinator}"}}]}}"""
"""A file `onceover-copy.json`, for two times as ISO 8601."""

Batch = tuple[TopicPartition, int]
"""A batch by its partition and first offset."""


def end_of_day(number: int) -> int:
    """The logical time of run `number`, which counts from 0; ms since 1970."""
    after = FIRST_DAY + timedelta(days=number + 1)
    return int(datetime(after.year, after.month, after.day, tzinfo=UTC).timestamp()) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A run's tables, and the batches that it publishes in the order in which it does."""

    run_id: str
    partitions: dict[TopicPartition, dict[str, Any]]
    outcomes: dict[Batch, str]
    transactions: list[dict[str, Any]]
    published: tuple[Batch, ...]
    counts: Mapping[str, int]
    messages: tuple[str, ...]


@dataclass(slots=True)
class RunLake:
    """A lake and its source; runs are counted from 0."""

    directory: Path
    config: str = BROKER_LOG
    spark: Spark = field(default_factory=InProcess)

    @property
    def settings(self) -> Settings:
        return parse_settings(self.config, name="test.yaml", base=self.directory)

    @property
    def lake(self) -> ObjectStore:
        return open_lake(self.settings)

    def copy_logs(
        self, logs: Mapping[TopicPartition, Iterable[LogBatch]], entries: Iterable[CoordinatorRecord] = ()
    ) -> None:
        """The source is a copy of these logs now."""
        files = {str(partition): map(batch_bytes, batches) for partition, batches in logs.items()}
        coordinator = [entry_bytes(entry) for entry in entries]
        for name, batches in {**files, f"{TRANSACTION_STATE}-0": coordinator}.items():
            data = b"".join(batches)
            if data:
                file = Path(self.settings.sources[0].root, name, SEGMENT)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)

    def run(self, number: int) -> Resolved:
        """Runs a run until `resolve`."""
        day = FIRST_DAY + timedelta(days=number)
        progress = RunProgress(Console(file=StringIO()))
        outcome = execute_run(self.settings, day, until=Step.RESOLVE, spark=self.spark, progress=progress)
        return read_resolved(self.lake, outcome.run_id, outcome.done[-1].counts)

    def messages(self, number: int, step: str) -> tuple[str, ...]:
        """The messages of a step of run `number`."""
        entry = read_chain(self.lake).run_of(FIRST_DAY + timedelta(days=number))
        assert entry is not None
        return _messages(self.lake, entry.run_id, Step(step))


def read_resolved(lake: ObjectStore, run_id: str, counts: Mapping[str, int]) -> Resolved:
    """What `resolve` of a run has written."""
    rows = read_table(lake, step_key(run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file)).to_pylist()
    partitions = {TopicPartition(row["topic"], row["partition"]): row for row in rows}
    outcomes = {
        (partition, row["first_offset"]): row["outcome"]
        for partition, own in partitions.items()
        if own["outcomes"]
        for row in read_table(lake, step_key(run_id, Step.RESOLVE, own["outcomes"])).to_pylist()
    }
    files = [found.key for found in lake.list(step_key(run_id, Step.RESOLVE, "transactions"))]
    return Resolved(
        run_id=run_id,
        partitions=partitions,
        outcomes=outcomes,
        transactions=[row for key in files for row in read_table(lake, key).to_pylist()],
        published=tuple(
            batch
            for partition, own in partitions.items()
            if not partition.topic.startswith("__")
            for batch in published_batches(lake, run_id, partition, own, outcomes)
        ),
        counts=counts,
        messages=_messages(lake, run_id, Step.RESOLVE),
    )


def _messages(lake: ObjectStore, run_id: str, step: Step) -> tuple[str, ...]:
    key = step_key(run_id, step, MESSAGES)
    return tuple(json.loads(lake.read(key))) if lake.stat(key) else ()


def published_batches(
    lake: ObjectStore, run_id: str, partition: TopicPartition, own: dict[str, Any], outcomes: dict[Batch, str]
) -> Iterator[Batch]:
    """The batches that a run publishes of a partition, by the contract, row by row."""
    for row in (*_held_rows(lake, own), *rows_of_run(lake, run_id, own)):
        txn, last_offset = row["txn_first_offset"], row["offset"] + row["last_offset_delta"]
        in_range = last_offset >= own["first_offset"] and row["offset"] < own["end_offset"]
        is_committed = txn < 0 or outcomes[partition, txn] == "committed"
        if is_committed and (in_range or txn in own["late"]):
            yield partition, row["offset"]


def _held_rows(lake: ObjectStore, own: dict[str, Any]) -> Iterator[dict[str, int]]:
    for digest in own["held"]:
        for row in get_inherited(lake, digest).rows:
            yield {name: int(row[name]) for name in ("offset", "last_offset_delta", "txn_first_offset")}


def rows_of_run(lake: ObjectStore, run_id: str, own: dict[str, Any]) -> Iterator[dict[str, int]]:
    if own["batches"] is None:
        return
    for row in read_table(lake, step_key(run_id, Step.ADMIT, own["batches"])).to_pylist():
        if row["verdict"] == Verdict.ACCEPTED and not row["attributes"] & CONTROL_FLAG:
            row["txn_first_offset"] = -1 if row["txn_first_offset"] is None else row["txn_first_offset"]
            yield row


def batch_bytes(batch: LogBatch) -> bytes:
    """A batch of one record with its place as value, or a marker."""
    header, marker = batch
    assert isinstance(header, RecordBatchHeader)
    if marker is not None:
        return write_marker(
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            control_type=marker.control_type,
            coordinator_epoch=marker.coordinator_epoch,
        )
    return build_batch(
        records=[Record(value=str(header.base_offset).encode())],
        base_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        partition_leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=bool(header.attributes & TRANSACTIONAL_FLAG),
    )


def entry_bytes(entry: CoordinatorRecord, *, version: int = 1) -> bytes:
    """A record of the coordinator's log in a batch of its own."""
    key = write_key(TransactionLogKey(transactional_id=entry.transactional_id))
    value = None if entry.value is None else write_value(entry.value, version)
    return build_batch(
        records=[Record(key=key, value=value)],
        base_timestamp=0 if entry.value is None else entry.value.transaction_last_update_timestamp_ms,
        base_offset=entry.offset,
        partition_leader_epoch=entry.coordinator_epoch,
    )
