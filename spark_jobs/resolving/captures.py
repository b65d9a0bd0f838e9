"""The driver's side of giving captures their markers: which partitions lack them, and what came of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.buckets import share_out
from spark_jobs.resolving.capture_markers import Marked, MarkerJob, MarkerTask, mark_captures
from spark_jobs.resolving.coordinators import read_timelines
from spark_jobs.resolving.night import has_markers, resolved_before
from spark_jobs.resolving.run import Run
from spark_jobs.sources.partitions import RunPartition
from spark_jobs.storage.captured_night import CapturedNight, Judge
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.tables.markers import MARKER_FILES

LISTING = "markers.parquet"
MOST_TASKS = 16
"""Each task reads all timelines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedCaptures:
    """The files of markers, and how many there are."""

    outputs: tuple[OutputFile, ...] = ()
    markers: int = 0


def mark_all(
    run: Run, night: Sequence[RunPartition], states: Mapping[TopicPartition, str], judge: Judge
) -> MarkedCaptures:
    """Markers for every partition that is captured without; nothing where no coordinator tells.

    `judge` applies the rules by which a batch is taken or not.
    """
    timelines = read_timelines(run.folder)
    jobs = tuple(_jobs(run, night, states)) if timelines.folds else ()
    tasks = [
        MarkerTask(
            jobs=jobs[share.start : share.stop],
            timelines=timelines.keys,
            judge=judge,
            settings=run.settings,
            lake=run.lake,
            folder=run.folder.key(Step.REBUILD),
        )
        for share in share_out([1] * len(jobs), MOST_TASKS)
    ]
    marked = tuple(chain.from_iterable(run.run_tasks(mark_captures, tasks)))
    outputs = tuple(each.output for each in marked if each.output is not None)
    if not outputs:
        return MarkedCaptures()
    listing = put_table(run.lake, run.folder.key(Step.REBUILD), LISTING, _listing(marked))
    return MarkedCaptures(outputs=(listing, *outputs), markers=sum(each.markers for each in marked))


def _jobs(
    run: Run, night: Iterable[RunPartition], states: Mapping[TopicPartition, str]
) -> Iterator[MarkerJob]:
    """Partitions with news: to others a marker can come when they have some, the outcome does not need it."""
    before = resolved_before(run)
    for found in night:
        row = before.get(found.partition)
        if not has_markers(found.entries, row, run.settings):
            captured = CapturedNight(
                partition=found.partition,
                keys=tuple(key for copy in found.copies for key in copy.keys),
                objects=found.entries,
                state=states[found.partition],
            )
            yield MarkerJob(night=captured, waiting="" if row is None else row["waiting"])


def _listing(marked: Iterable[Marked]) -> pa.Table:
    rows = [
        {"topic": each.partition.topic, "partition": each.partition.partition, "file": each.output.path}
        for each in marked
        if each.output is not None
    ]
    return MARKER_FILES.cast(pa.Table.from_pylist(rows, schema=MARKER_FILES.schema))
