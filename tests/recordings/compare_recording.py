"""One recording as a whole: its conversation replayed, its logs read, everything compared that it holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.sample.broker.partition_log import PartitionLog
from tests.recordings.compare_dump import compare_dump
from tests.recordings.compare_logs import compare_aborted, compare_offsets, compare_partition
from tests.recordings.compare_rebuild import compare_rebuilds
from tests.recordings.compare_transaction_log import compare_transaction_log
from tests.recordings.compare_truth import compare_committed, compare_uncommitted
from tests.recordings.difference import Difference
from tests.recordings.log_directory import RecordedPartition
from tests.recordings.recorded_log import load_recorded
from tests.recordings.recording import Conversation, Recording
from tests.recordings.replay import Replay, failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of one recording."""

    name: str
    requests: int
    differences: tuple[Difference, ...]


def compare_recording(recording: Recording) -> Comparison:
    """Replay and read everything; a part that cannot be compared counts as a difference."""
    differences: list[Difference] = []
    requests = 0
    for conversation in recording.conversations:
        replay = Replay(conversation, recording.logs)
        requests += replay.requests
        differences += replay.run()
        if recording.directory is not None:
            differences += _compare_replayed(recording, conversation, replay)
    for partition in recording.logs.partitions.values():
        differences += _compare_recorded(recording, partition)
    return Comparison(name=recording.name, requests=requests, differences=tuple(differences))


def _compare_replayed(
    recording: Recording, conversation: Conversation, replay: Replay
) -> Iterator[Difference]:
    """The logs that the replay wrote against those that the broker left."""
    where = f"{conversation.name} replayed"
    replay.shut_down(clean=recording.logs.clean)
    for partition in recording.logs.data_partitions:
        log = replay.broker.logs[partition.topic_partition]
        cleaned_to = recording.logs.cleaner_offsets.get(partition.topic_partition)
        place = f"{where} {partition.topic_partition}"
        yield from _guarded(place, compare_partition(partition, log, cleaned_to))
        yield from _guarded(place, _compare_reads(where, recording, partition, log))
    yield from _guarded(where, compare_transaction_log(replay.broker.transaction_log))


def _compare_recorded(recording: Recording, partition: RecordedPartition) -> Iterator[Difference]:
    """The broker's own files, read by our code, against everything that was recorded about them."""
    topic_partition = partition.topic_partition
    where = f"recorded {topic_partition}"
    yield from _guarded(where, _compare_loaded(recording, partition))
    if topic_partition in recording.dumps:
        yield from _guarded(where, compare_dump(partition, recording.dumps[topic_partition]))


def _compare_loaded(recording: Recording, partition: RecordedPartition) -> Iterator[Difference]:
    log = load_recorded(partition, recording.logs, recording.offsets.get(partition.topic_partition))
    is_cleaned = partition.topic_partition in recording.logs.cleaner_offsets
    whole = log.log_start_offset == 0 and not is_cleaned
    yield from _compare_reads("recorded", recording, partition, log)
    yield from compare_rebuilds(partition, log, whole=whole)
    if whole:
        yield from compare_aborted(partition, log)


def _compare_reads(
    where: str, recording: Recording, partition: RecordedPartition, log: PartitionLog
) -> Iterator[Difference]:
    """Offsets and records of a partition that the recorded consumers read."""
    topic_partition = partition.topic_partition
    if topic_partition not in recording.offsets:
        return
    yield from compare_offsets(where, topic_partition, recording.offsets[topic_partition], log)
    if recording.committed is not None:
        records = recording.committed.get(topic_partition, ())
        yield from compare_committed(where, topic_partition, records, log)
    if recording.uncommitted is not None:
        records = recording.uncommitted.get(topic_partition, ())
        yield from compare_uncommitted(where, topic_partition, records, log)


def _guarded(where: str, differences: Iterator[Difference]) -> Iterator[Difference]:
    """The differences as they are found; if the comparison breaks, that is one more."""
    try:
        yield from differences
    except Exception as error:  # noqa: BLE001 - whatever breaks here is a difference to report, not the end
        yield failure(where, error)
