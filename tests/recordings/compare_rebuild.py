"""Producer state rebuilt from each older snapshot and the log after it, against the newest snapshot."""

from collections.abc import Iterator

from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.producer_state_manager import ProducerStateManager, rebuild_producer_state
from tests.recordings.compare_logs import compare_entries
from tests.recordings.difference import Difference
from tests.recordings.log_directory import RecordedPartition
from tests.recordings.recorded_log import NOW


def compare_rebuilds(recorded: RecordedPartition, log: PartitionLog, *, whole: bool) -> Iterator[Difference]:
    """`whole`: the log holds everything that was ever written, so that no snapshot is needed either."""
    if not recorded.snapshots:
        return
    newest = max(recorded.snapshots)
    if newest > log.log_end_offset:
        return
    starts = [offset for offset in sorted(recorded.snapshots) if log.log_start_offset < offset < newest]
    for start in [None, *starts] if whole else starts:
        kept = {} if start is None else {start: recorded.snapshots[start]}
        manager = ProducerStateManager(kept)
        rebuild_producer_state(manager, log.segments, log.log_start_offset, newest, now=NOW, clean=False)
        origin = "the log alone" if start is None else f"{start}.snapshot"
        where = f"{recorded.topic_partition} {newest}.snapshot from {origin}"
        yield from compare_entries(where, recorded.snapshots[newest], manager.snapshots[newest])
