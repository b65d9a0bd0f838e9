"""The accepted log of captured partitions, assembled from the runs of the chain.

What comes out is a broker's log directory without indexes: a broker rebuilds them. Files are copied, never
linked, since a broker appends to the last segment.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.flow import Step
from spark_jobs.protocol.log_files import LogFileKind, parse_file_name, parse_partition_dir
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.errors import BrokenChain, BrokenRun
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.planned_segments import LOG
from spark_jobs.storage.run_folder import OutputFile, RunFolder, StepDone, read_inputs
from spark_jobs.storage.segment_digest import content_digest, segment_digest


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
    """Copies a partition's files into `directory`, each proved by its digest; returns their bytes."""
    directory.mkdir(parents=True)
    return sum(_copy(lake, part, directory / part.name) for part in parts.values())


def _copy(lake: ObjectStore, part: LogPart, target: Path) -> int:
    with target.open("wb") as file:
        for chunk in lake.chunks(part.key):
            file.write(chunk)
    digest = segment_digest if part.base_offset is not None else content_digest
    if digest(target) != part.output.digest:
        raise BrokenRun(f"{lake.url_of(part.key)}: is not what its run wrote: its digest is another one")
    return part.output.size
