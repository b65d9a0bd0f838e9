"""Segments that `admit` has planned; the tasks that decode their batches write them as well."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.protocol.log_files import LogFileKind, segment_file_name
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.run_folder import OutputFile, RunFolder
from spark_jobs.tables.admit import PLANNED_SEGMENTS

LOG = "log/"
"""Where files of accepted logs are below the folder of their step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSegment:
    """A row of the table `planned_segments`, without the partition."""

    base_offset: int
    leader_epoch: int
    size: int
    digest: str
    first_row: int
    stop_row: int


Segments = tuple[PlannedSegment, ...]
"""Those of a partition, by ascending offset."""


def segment_path(partition: TopicPartition, segment: PlannedSegment) -> str:
    """Where the segment goes, below the folder of the step that writes it."""
    return f"{LOG}{partition}/{segment_file_name(segment.base_offset, LogFileKind.LOG)}"


def put_segments(folder: RunFolder, planned: Iterable[tuple[TopicPartition, Segments]]) -> OutputFile:
    """Writes the table of `admit`."""
    rows = [
        {"topic": partition.topic, "partition": partition.partition, **asdict(segment)}
        for partition, segments in planned
        for segment in segments
    ]
    table = PLANNED_SEGMENTS.cast(pa.Table.from_pylist(rows, schema=PLANNED_SEGMENTS.schema))
    return put_table(folder.lake, folder.key(Step.ADMIT), PLANNED_SEGMENTS.file, table)


def read_segments(folder: RunFolder) -> Mapping[TopicPartition, Segments]:
    """The segments of every captured partition in this run."""
    found: dict[TopicPartition, Segments] = {}
    for row in read_table(folder.lake, folder.key(Step.ADMIT, PLANNED_SEGMENTS.file)).to_pylist():
        partition = TopicPartition(row.pop("topic"), row.pop("partition"))
        found[partition] = (*found.get(partition, ()), PlannedSegment(**row))
    return found
