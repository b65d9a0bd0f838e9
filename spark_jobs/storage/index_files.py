"""The files of a run's index, by partition and copy."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.log_segments import SegmentPlace
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.run_folder import RunFolder
from spark_jobs.tables.index import INDEX_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedCopy:
    """One copy of a partition's log: keys of its index files in arrival order, and their rows in all.

    `segments` are those of a broker's log.
    """

    partition: TopicPartition
    number: int
    source: str
    directory: str
    keys: tuple[str, ...]
    rows: int
    segments: tuple[SegmentPlace, ...] = ()


def read_index_files(folder: RunFolder) -> dict[TopicPartition, tuple[IndexedCopy, ...]]:
    """The copies of every partition that the run has objects of."""
    rows = read_table(folder.lake, folder.key(Step.INDEX, INDEX_FILES.file)).to_pylist()
    copies = _copies(folder, rows)
    return {partition: tuple(same) for partition, same in groupby(copies, lambda copy: copy.partition)}


def _copies(folder: RunFolder, rows: list[dict[str, Any]]) -> Iterator[IndexedCopy]:
    """The rows come in order of partition, copy and arrival."""
    for (topic, partition, number), files in groupby(
        rows, lambda row: (row["topic"], row["partition"], row["copy"])
    ):
        listed = list(files)
        yield IndexedCopy(
            partition=TopicPartition(topic, partition),
            number=number,
            source=listed[0]["source"],
            directory=listed[0]["directory"],
            keys=tuple(folder.key(Step.INDEX, row["file"]) for row in listed),
            rows=sum(row["rows"] for row in listed),
        )
