"""`index`: staged objects → a row per batch, in files that workers write; the driver sees no rows.

Read on in: `job` (what a task receives and returns), `worker` (what a Spark task does), `walk` (batch by
batch through an object).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects, counts_keys
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.staged_headers import clear_headers, headers_file, headers_folder, staged_headers
from spark_jobs.pipeline.context import RunContext, StepResult, pack, spread
from spark_jobs.pipeline.index.job import Bin, BinSummary, Copy, Piece
from spark_jobs.pipeline.index.walk import WalkLimits
from spark_jobs.pipeline.index.worker import IndexTask, index_bins
from spark_jobs.tables.index import INDEX_FILES

# Which worker reads which bytes: small objects of a partition together, large ones in parts.


OBJECT_COST = 64 * 2**10
FILE_COST = 2**20
"""What opening an object and finishing a file cost, in bytes that could be read meanwhile."""

ROOM_FOR_SMALL = 4
"""A bin takes a quarter of a range on top: a log's last segment, still small, goes with the one before."""

TASKS_PER_SLOT = 2
SMALLEST_TASK, LARGEST_TASK = 16 * 2**20, 2**30
"""Cost of a task: above Spark's own for starting it, below what is costly to repeat."""


def plan_bins(
    entries: Iterable[ManifestEntry], settings: Settings, headers: Collection[str] = ()
) -> list[Bin]:
    """Bins in order of partition, copy and arrival, each of about `range_bytes`, or less for a small copy.

    `headers` are the names of the files of headers that `stage` has written.
    """
    most = settings.limits.range_bytes + settings.limits.range_bytes // ROOM_FOR_SMALL
    bins: list[Bin] = []
    for copy, objects in group_by_copy(entries).items():
        pieces = (piece for entry in objects for piece in split(entry, settings, headers))
        packed = pack(pieces, cost=lambda piece: _cost_of_piece(piece, most), most=most)
        bins.extend(Bin(copy=copy, pieces=together) for together in packed)
    return bins


def pack_tasks(bins: Sequence[Bin], parallelism: int) -> Iterator[tuple[Bin, ...]]:
    """Neighbouring bins together: a few tasks per slot of Spark's, none too small to be worth its start."""
    tasks = TASKS_PER_SLOT * parallelism
    return spread(bins, cost=_cost_of_bin, tasks=tasks, smallest=SMALLEST_TASK, largest=LARGEST_TASK)


def group_by_copy(entries: Iterable[ManifestEntry]) -> dict[Copy, list[ManifestEntry]]:
    """The objects that hold batches by copy, in order of partition, copy and arrival."""
    groups: dict[tuple[TopicPartition, str, str], list[ManifestEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.topic, entry.partition, entry.order)):
        groups.setdefault(_copy_of(entry), []).append(entry)
    numbers: dict[TopicPartition, int] = {}
    copies: dict[Copy, list[ManifestEntry]] = {}
    for (partition, _, directory), objects in groups.items():
        number = numbers.setdefault(partition, 0)
        copies[Copy(partition=partition, number=number, source=objects[0].source, directory=directory)] = (
            objects
        )
        numbers[partition] = number + 1
    return copies


def _copy_of(entry: ManifestEntry) -> tuple[TopicPartition, str, str]:
    partition = TopicPartition(entry.topic, entry.partition)
    if entry.origin is AppendOrigin.CLIENT:
        return partition, "", ""
    return partition, entry.source, entry.copy_directory


def split(entry: ManifestEntry, settings: Settings, headers: Collection[str] = ()) -> Iterator[Piece]:
    """What the run reads of the object whole, or in parts of `range_bytes`.

    Only the first part's boundary is known: the object's start, or the end of what is inherited.
    """
    reads_keys = counts_keys(settings, entry.topic, entry.role)
    has_headers = not reads_keys and headers_file(entry.sha256) in headers
    at, length = StagedObjects(settings).locate(entry), settings.limits.range_bytes
    first = entry.inherited_bytes
    for start in range(first, max(entry.size, first + 1), length):
        yield Piece(
            object_order=entry.order,
            store=at.store.url,
            key=at.key,
            version=at.version,
            size=entry.size,
            start=start,
            stop=min(start + length, entry.size),
            boundary=first if start == first else None,
            counts_keys=reads_keys,
            first=first,
            sha256=entry.sha256 if has_headers else "",
        )


def _cost_of_piece(piece: Piece, most: int) -> int:
    """A part of a larger object fills a bin: it may have to be read again on its own."""
    length = piece.stop - piece.start
    return OBJECT_COST + (length if piece.is_whole else most)


def _cost_of_bin(each: Bin) -> int:
    return FILE_COST + OBJECT_COST * len(each.pieces) + each.bytes


# Do the parts of an object fit together? One that does not begin where the one before ends is read again.


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBin:
    """A bin and what a worker made of it."""

    bin: Bin
    summary: BinSummary

    @property
    def bytes(self) -> int:
        """Bytes that the rows cover: a part's begin and end at boundaries."""
        if self.bin.is_part and self.summary.first is not None:
            return self.summary.end - self.summary.first
        return self.bin.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedParts:
    """`kept` parts follow one another from an object's start on.

    `again` has the first part of each object that does not, with the boundary where it has to begin. `empty`
    parts are inside a batch, or in the rest of an object that is lost: they have no rows.
    """

    kept: tuple[IndexedBin, ...]
    empty: tuple[IndexedBin, ...]
    again: tuple[Bin, ...]


IndexRound = Callable[[Sequence[Bin]], Iterable[IndexedBin]]
"""Has workers index some bins, and gives them back in the same order."""


def index_until_joined(bins: Sequence[Bin], index: IndexRound) -> JoinedParts:
    """Index all `bins`, and parts again, each time with a true boundary, until nothing is left to repeat.

    Every round joins at least one more part of each object, so there are at most as many rounds as parts.
    """
    indexed = {each.bin.place: each for each in index(bins)}
    joined = join_all_parts(indexed.values())
    while joined.again:
        indexed |= {each.bin.place: each for each in index(joined.again)}
        joined = join_all_parts(indexed.values())
    return joined


def join_all_parts(indexed: Iterable[IndexedBin]) -> JoinedParts:
    """Follow the boundaries through every object; bins are in order."""
    joined = [join_parts(parts) for parts in _by_object(indexed)]
    return JoinedParts(
        kept=tuple(each for each_object in joined for each in each_object.kept),
        empty=tuple(each for each_object in joined for each in each_object.empty),
        again=tuple(each for each_object in joined for each in each_object.again),
    )


def join_parts(parts: Iterable[IndexedBin]) -> JoinedParts:
    """Follow the boundaries through all parts of one object; whole objects fit by themselves."""
    boundary = 0
    kept: list[IndexedBin] = []
    empty: list[IndexedBin] = []
    for number, part in enumerate(parts):
        boundary = part.bin.pieces[0].first if number == 0 else boundary
        if part.bin.is_part and boundary >= part.bin.pieces[0].stop:
            empty.append(part)
        elif part.summary.first == boundary:
            kept.append(part)
            boundary = part.summary.end
        else:
            return JoinedParts(kept=tuple(kept), empty=tuple(empty), again=(part.bin.begin_at(boundary),))
    return JoinedParts(kept=tuple(kept), empty=tuple(empty), again=())


def _by_object(indexed: Iterable[IndexedBin]) -> Iterator[list[IndexedBin]]:
    """Bins that begin in the same object: its parts, or the one file that has it whole."""
    for _, parts in groupby(indexed, key=lambda each: each.bin.pieces[0].object_order):
        yield list(parts)


MOST_MESSAGES = 20


def run(context: RunContext) -> StepResult:
    """Index every object that holds batches; damage inside one is a row, never a failed run."""
    batches = context.manifest.batches
    headers = staged_headers(context.lake, context.manifest.day)
    indexed = index_all(context, plan_bins(batches, context.settings, headers))
    clear_headers(context.lake, context.manifest.day)
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

    kept = index_until_joined(bins, index_round).kept
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
            headers=headers_folder(context.manifest.day),
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
