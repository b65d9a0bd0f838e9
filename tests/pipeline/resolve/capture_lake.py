"""Runs of captured producers: what they sent, without markers, beside a copy of the coordinator's log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.lake.inherited_rows import get_inherited
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.tables.admit import MARKER_OBJECT
from tests.kafka.txn_cluster import PARTITIONS
from tests.pipeline.resolve.run_lake import Batch, Resolved, RunLake, rows_of_run

CAPTURE = """
lake: lake
publish: whole_transactions
sources:
  - {name: coordinator, kind: broker-log, root: broker}
  - {name: gateway, kind: capture, root: capture}
kafka: {clock_skew_ms: SKEW, transaction_version: VERSION}
"""


@dataclass(slots=True)
class CaptureLake:
    """A lake that captures; batches are known by where they stood in the cluster's own logs."""

    runs: RunLake
    taken: Counter[TopicPartition] = field(default_factory=Counter)
    sequences: Counter[tuple[TopicPartition, int, int]] = field(default_factory=Counter)
    places: dict[tuple[str, int], Batch] = field(default_factory=dict)

    def capture(self, number: int, partition: TopicPartition, log: list[LogBatch]) -> None:
        """The data that was sent since the previous run, as one object."""
        path = f"{partition}/{number:04d}"
        data = b""
        for header, marker in log[self.taken[partition] :]:
            assert isinstance(header, RecordBatchHeader)
            if marker is None:
                self.places[path, len(data)] = (partition, header.base_offset)
                data += self._sent(partition, header)
        self.taken[partition] = len(log)
        if data:
            file = Path(self.runs.settings.source("gateway").root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _sent(self, partition: TopicPartition, header: RecordBatchHeader) -> bytes:
        chain = (partition, header.producer_id, header.producer_epoch)
        sequence = self.sequences[chain]
        self.sequences[chain] += 1
        return build_batch(
            records=[Record(value=str(header.base_offset).encode())],
            base_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def run(
        self, number: int, logs: dict[TopicPartition, list[LogBatch]], entries: Iterable[CoordinatorRecord]
    ) -> tuple[Resolved, list[Batch]]:
        """Executes a run; also returns which batches it published."""
        for partition in PARTITIONS:
            self.capture(number, partition, logs[partition])
        Path(self.runs.settings.source("gateway").root).mkdir(exist_ok=True)
        self.runs.copy_logs({}, entries)
        found = self.runs.run(number)
        named = {
            (partition, offset): batch
            for partition in found.partitions
            for offset, batch in self._offsets(found, partition)
        }
        return found, [named[batch] for batch in found.published]

    def _offsets(self, found: Resolved, partition: TopicPartition) -> Iterable[tuple[int, Batch]]:
        """The offsets that batches were given, in this run or before."""
        lake, own = self.runs.lake, found.partitions[partition]
        for digest in own["held"]:
            inherited = get_inherited(lake, digest)
            for row in inherited.rows:
                path = inherited.objects[row["object"]].path
                yield int(row["offset"]), self.places[path, int(row["position"])]
        paths = {entry.order: entry.path for entry in read_run_manifest(lake, found.run_id).entries}
        for row in rows_of_run(lake, found.run_id, own):
            if (
                row["object_order"] != MARKER_OBJECT
                and (key := (paths[row["object_order"]], row["position"])) in self.places
            ):
                yield row["offset"], self.places[key]


def capture_lake(directory: Path, *, skew_ms: int, version: str = "TV2") -> CaptureLake:
    """A lake that allows for that much between clocks, and expects clients of that version."""
    config = CAPTURE.replace("SKEW", str(skew_ms)).replace("VERSION", version)
    return CaptureLake(RunLake(directory, config))
