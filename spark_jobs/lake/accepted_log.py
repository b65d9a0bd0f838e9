"""The accepted log of captured partitions: digests of segments, planned segments, and the files of each run.

`write_log` assembles a broker's log directory from the runs of the chain. It has no indexes: a broker
rebuilds them. Files are copied, never linked, since a broker appends to the last segment.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import (
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
    segment_file_name,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.scan import ScanStop, StopReason, scan_chunk
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.errors import BrokenChain, BrokenRun
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder, StepDone, read_inputs
from spark_jobs.tables.admit import PLANNED_SEGMENTS

BATCHES_AT_A_TIME = 1 << 16
_ROW = np.dtype([("base_offset", ">i8"), ("size", ">i8"), ("crc", ">u4")])

Numbers = npt.NDArray[Any]


class SegmentDigest:
    """The digest of a segment, computed from batch headers before any byte of the segment is written.

    It covers offset, size and CRC of each batch; the CRC covers the rest of the batch.
    """

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, *, base_offset: Numbers, size: Numbers, crc: Numbers) -> None:
        """Adds the next batches."""
        rows = np.empty(base_offset.size, dtype=_ROW)
        rows["base_offset"], rows["size"], rows["crc"] = base_offset, size, crc
        self._sha256.update(rows.tobytes())

    def under(self, leader_epoch: int) -> str:
        """Hexadecimal, for the segment as the leader of that epoch writes it."""
        whole = self._sha256.copy()
        whole.update(leader_epoch.to_bytes(4, signed=True))
        return whole.hexdigest()


def segment_digest(path: Path) -> str:
    """The digest of a segment's file; empty unless all of it is batches of one leader, none damaged."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    digest, epochs = SegmentDigest(), set[int]()
    stop = ScanStop(position=0, reason=StopReason.FULL)
    while stop.reason is StopReason.FULL:
        scan = scan_chunk(data, start=stop.position, capacity=BATCHES_AT_A_TIME)
        found, stop = scan.columns, scan.stop
        digest.add(base_offset=found.base_offset, size=found.size, crc=found.crc)
        epochs.update(np.unique(found.partition_leader_epoch).tolist())
    is_whole = stop.reason is StopReason.END and len(epochs) == 1
    return digest.under(epochs.pop()) if is_whole else ""


def content_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    """Writes the table `planned_segments` of `admit`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """One file of a partition's log, and its key in the lake."""

    partition: TopicPartition
    name: str
    key: str
    output: OutputFile

    @property
    def base_offset(self) -> int | None:
        """The offset in a segment's name; None for other files."""
        file = parse_file_name(self.name)
        return file.offset if file is not None and file.kind is LogFileKind.LOG else None


PartitionParts = dict[str, LogPart]
"""The files of one partition by name."""


def accepted_logs(
    lake: ObjectStore, chain: Chain, topics: Collection[str] = ()
) -> dict[TopicPartition, PartitionParts]:
    """The files of every captured partition, of `topics` only if given; later runs win.

    Raises `BrokenChain` while later runs do not follow from a backfilled one.
    """
    for entry in chain.stale():
        raise BrokenChain(f"{entry.run_id}: does not follow from the previous run; run it again first")
    logs: dict[TopicPartition, PartitionParts] = {}
    for entry in chain.current.values():
        for part in log_parts(lake, entry.run_id):
            if not topics or part.partition.topic in topics:
                logs.setdefault(part.partition, {})[part.name] = part
    return dict(sorted(logs.items()))


def log_parts(lake: ObjectStore, run_id: str) -> Iterator[LogPart]:
    """The files that one run added to the accepted logs."""
    folder = RunFolder(lake, read_inputs(lake, run_id))
    for step in (Step.ADMIT, Step.MATERIALISE):
        done = folder.done(step)
        if done is None:
            raise BrokenRun(
                f"{run_id}: its accepted log is incomplete: its step {step} is not done, or was removed; "
                "run its date again, at least until materialise"
            )
        yield from _parts_of(folder, done)


def _parts_of(folder: RunFolder, done: StepDone) -> Iterator[LogPart]:
    for output in done.outputs:
        if output.path.startswith(LOG):
            directory, _, name = output.path.removeprefix(LOG).rpartition("/")
            found = parse_partition_dir(directory)
            if found is not None:
                partition = TopicPartition(found.topic, found.partition)
                key = folder.key(done.step, output.path)
                yield LogPart(partition=partition, name=name, key=key, output=output)


def write_log(lake: ObjectStore, parts: PartitionParts, directory: Path) -> int:
    """Copies a partition's files into `directory` and verifies their digests; returns the number of bytes."""
    directory.mkdir(parents=True)
    return sum(_copy(lake, part, directory / part.name) for part in parts.values())


def _copy(lake: ObjectStore, part: LogPart, target: Path) -> int:
    with target.open("wb") as file:
        for chunk in lake.chunks(part.key):
            file.write(chunk)
    digest = segment_digest if part.base_offset is not None else content_digest
    if digest(target) != part.output.digest:
        raise BrokenRun(f"{lake.url_of(part.key)}: its digest differs from the one that its run recorded")
    return part.output.size
