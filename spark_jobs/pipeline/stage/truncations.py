"""Logs of captured partitions that a run may have to cut off, because another one has given the same offsets.

A pair of leader epoch and offset always names the same batch (facts §1.11). So where a run gives offsets that
a run before it has given too, it writes the same bytes or under a higher epoch. Which epochs are used up is
decided when the run is staged, and is one of its inputs from then on.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.checkpoints import read_leader_epochs
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import LOG, Segments, read_segments
from spark_jobs.lake.chain import Chain, EntryKind
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import Truncation
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.states import get_state, states_before
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, KIND_OF, PLANNED_SEGMENTS

COLUMNS = ("topic", "partition", "kind", "leader_epoch", "end_offset")
READERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Up to which offset a run has written a partition's log, and under which leader epoch."""

    leader_epoch: int = -1
    end_offset: int = 0


LogEnds = list[tuple[TopicPartition, LogEnd]]


def truncations(lake: ObjectStore, chain: Chain, day: date) -> tuple[Truncation, ...]:
    """The truncations of a run of `day`; none unless runs were replaced, rolled back, or are later."""
    with ThreadPoolExecutor(READERS) as readers:
        others = tuple(readers.map(lambda run_id: _log_ends(lake, run_id), _others(chain, day)))
        if not any(others):
            return ()
        used = _by_partition(others)
        starts = dict(readers.map(lambda each: _start(lake, *each), _states(lake, chain, day, used)))
        free = _free_epochs(used, starts)
        folder = _last_run(lake, chain, day) if free else None
        written = read_segments(folder) if folder is not None else {}

        def truncation(partition: TopicPartition) -> Truncation:
            return _truncation(folder, partition, free[partition], written.get(partition, ()))

        return tuple(readers.map(truncation, sorted(free)))


def _free_epochs(
    used: dict[TopicPartition, list[LogEnd]], starts: dict[TopicPartition, LogEnd]
) -> dict[TopicPartition, int]:
    """For partitions whose offsets from the start on were given before, the next epoch that is unused."""
    found = {}
    for partition, ends in used.items():
        start = starts.get(partition, LogEnd())
        epochs = [end.leader_epoch for end in ends if _collides(end, start)]
        if epochs:
            found[partition] = max(epochs) + 1
    return found


def _others(chain: Chain, day: date) -> list[str]:
    """Runs that a run of `day` does not build upon: of this date or later, or rolled back."""
    speaking = {entry.run_id for entry in chain.before(day)}
    runs = (entry.run_id for entry in chain.entries if entry.kind is EntryKind.RUN)
    return [run_id for run_id in dict.fromkeys(runs) if run_id not in speaking]


def _log_ends(lake: ObjectStore, run_id: str) -> LogEnds:
    key = step_key(run_id, Step.ADMIT, ADMITTED_PARTITIONS.file)
    if lake.stat(key) is None:
        return []  # an old run that was removed, with all that it wrote
    columns = read_table(lake, key).select(COLUMNS).to_pydict()
    return [
        (TopicPartition(topic, partition), LogEnd(leader_epoch=epoch, end_offset=end))
        for topic, partition, kind, epoch, end in zip(*columns.values(), strict=True)
        if kind == KIND_OF[AppendOrigin.CLIENT]
    ]


def _by_partition(others: Iterable[LogEnds]) -> dict[TopicPartition, list[LogEnd]]:
    found: dict[TopicPartition, list[LogEnd]] = {}
    for ends in others:
        for partition, end in ends:
            found.setdefault(partition, []).append(end)
    return found


def _states(
    lake: ObjectStore, chain: Chain, day: date, wanted: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, str]]:
    _, states = states_before(lake, chain, chain.state_before(day))
    return ((partition, states[partition]) for partition in wanted if partition in states)


def _start(lake: ObjectStore, partition: TopicPartition, digest: str) -> tuple[TopicPartition, LogEnd]:
    state = get_state(lake, digest, with_producers=False)
    return partition, LogEnd(leader_epoch=state.leader_epoch, end_offset=state.end_offset)


def _collides(end: LogEnd, start: LogEnd) -> bool:
    return end.end_offset > start.end_offset and end.leader_epoch >= start.leader_epoch


def _last_run(lake: ObjectStore, chain: Chain, day: date) -> RunFolder | None:
    """The last run of the date, also if it was replaced, if what it wrote still exists."""
    runs = [entry.run_id for entry in chain.entries if entry.kind is EntryKind.RUN and entry.day == day]
    if not runs or lake.stat(step_key(runs[-1], Step.ADMIT, PLANNED_SEGMENTS.file)) is None:
        return None
    return RunFolder(lake, read_inputs(lake, runs[-1]))


def _truncation(
    folder: RunFolder | None, partition: TopicPartition, leader_epoch: int, segments: Segments
) -> Truncation:
    return Truncation(
        topic=partition.topic,
        partition=partition.partition,
        leader_epoch=leader_epoch,
        epochs=tuple(_epochs(folder, partition)) if folder is not None and segments else (),
        segments=tuple((segment.base_offset, segment.digest) for segment in segments),
    )


def _epochs(folder: RunFolder, partition: TopicPartition) -> Iterator[tuple[int, int]]:
    key = folder.key(Step.ADMIT, f"{LOG}{partition}", LEADER_EPOCH_CHECKPOINT)
    found = read_leader_epochs(folder.lake.read(key), source=folder.lake.url_of(key))
    return ((entry.epoch, entry.start_offset) for entry in found)
