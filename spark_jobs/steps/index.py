"""`index`: staged objects → a row per batch, in files that workers write; the driver sees no rows."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa

from spark_jobs.context import RunContext, StepResult
from spark_jobs.flow import Step
from spark_jobs.indexing.piece import Bin
from spark_jobs.indexing.plan import pack_tasks, plan_bins
from spark_jobs.indexing.settle import IndexedBin, index_until_settled
from spark_jobs.indexing.walk import WalkLimits
from spark_jobs.indexing.worker import IndexTask, index_bins
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.tables.index import INDEX_FILES

MOST_MESSAGES = 20


def run(context: RunContext) -> StepResult:
    """Index every object that holds batches; damage inside one is a row, never a failed run."""
    batches = context.manifest.batches
    indexed = index_all(context, plan_bins(batches, context.settings))
    listing = put_table(context.lake, context.folder.key(Step.INDEX), INDEX_FILES.file, files_table(indexed))
    return StepResult(
        outputs=(listing, *(each.summary.output for each in indexed)),
        counts={
            "objects": len(batches),
            "bytes": sum(entry.size - entry.inherited_bytes for entry in batches),
            "batches": sum(each.summary.rows - each.summary.problems for each in indexed),
            "problems": sum(each.summary.problems for each in indexed),
        },
        messages=tuple(islice(messages(batches, indexed), MOST_MESSAGES)),
    )


def index_all(context: RunContext, bins: Sequence[Bin]) -> tuple[IndexedBin, ...]:
    """Every file that has its place in the index."""
    written: set[str] = set()

    def index_round(some: Sequence[Bin]) -> Iterator[IndexedBin]:
        written.update(each.file for each in some)
        return index(context, some)

    kept = index_until_settled(bins, index_round).kept
    for name in sorted(written.difference(each.bin.file for each in kept)):
        context.lake.delete(context.folder.key(Step.INDEX, name))
    return kept


def index(context: RunContext, bins: Sequence[Bin]) -> Iterator[IndexedBin]:
    """One round of workers over `bins`; for none, Spark is not even started."""
    if not bins:
        return
    limits = WalkLimits(
        max_batch_bytes=context.settings.limits.max_batch_bytes,
        record_limits=context.settings.limits.protocol,
    )
    tasks = [
        IndexTask(
            bins=together,
            lake=context.lake,
            folder=context.folder.key(Step.INDEX),
            s3=context.settings.s3,
            limits=limits,
        )
        for together in pack_tasks(bins, context.spark.parallelism)
    ]
    summaries = chain.from_iterable(context.run_tasks(index_bins, tasks))
    for each, summary in zip(bins, summaries, strict=True):
        yield IndexedBin(bin=each, summary=summary)


def files_table(indexed: Sequence[IndexedBin]) -> pa.Table:
    """The table `index_files`."""
    rows = [
        {
            "topic": each.bin.copy.partition.topic,
            "partition": each.bin.copy.partition.partition,
            "copy": each.bin.copy.number,
            "source": each.bin.copy.source,
            "directory": each.bin.copy.directory,
            "file": each.bin.file,
            "object_order": each.bin.pieces[0].object_order,
            "position": each.summary.first,
            "rows": each.summary.rows,
            "bytes": each.bytes,
            "problems": each.summary.problems,
        }
        for each in indexed
    ]
    return INDEX_FILES.cast(pa.Table.from_pylist(rows, schema=INDEX_FILES.schema))


def messages(batches: Sequence[ManifestEntry], indexed: Sequence[IndexedBin]) -> Iterator[str]:
    """A sentence for some of the problems of every file."""
    objects = {entry.order: entry for entry in batches}
    for example in chain.from_iterable(each.summary.examples for each in indexed):
        entry, damage = objects[example.object_order], example.damage
        yield f"{entry.source}/{entry.path} at byte {damage.position}, {damage.size} bytes: {damage.reason}"
