"""Which worker reads which bytes: small objects of a partition together, large ones in parts."""

from collections.abc import Iterable, Iterator, Sequence

from spark_jobs.config.settings import CleanupPolicy, Settings
from spark_jobs.indexing.piece import Bin, Copy, Piece
from spark_jobs.packing import pack, spread
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.staged import StagedObjects

OBJECT_COST = 64 * 2**10
FILE_COST = 2**20
"""What opening an object and finishing a file cost, in bytes that could be read meanwhile."""

ROOM_FOR_SMALL = 4
"""A bin takes a quarter of a range on top: a log's last segment, still small, goes with the one before."""

TASKS_PER_SLOT = 2
SMALLEST_TASK, LARGEST_TASK = 16 * 2**20, 2**30
"""Cost of a task: above Spark's own for starting it, below what would hurt to do again."""


def plan_bins(entries: Iterable[ManifestEntry], settings: Settings) -> list[Bin]:
    """Bins in order of partition, copy and arrival, each of about `range_bytes`, or less for a small copy."""
    most = settings.limits.range_bytes + settings.limits.range_bytes // ROOM_FOR_SMALL
    bins: list[Bin] = []
    for copy, objects in group_by_copy(entries).items():
        pieces = (piece for entry in objects for piece in split(entry, settings))
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


def split(entry: ManifestEntry, settings: Settings) -> Iterator[Piece]:
    """What the run reads of the object whole, or in parts of `range_bytes`.

    Only the first part's boundary is known: the object's start, or the end of what is inherited. Keys are
    counted where a leader looks at them: in what producers send to a compacted topic (facts §2.11).
    """
    is_compacted = settings.topic(entry.topic).cleanup_policy is CleanupPolicy.COMPACT
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
            counts_keys=is_compacted and entry.origin is AppendOrigin.CLIENT,
            first=first,
        )


def _cost_of_piece(piece: Piece, most: int) -> int:
    """A part of a larger object fills a bin: it may have to be read again on its own."""
    length = piece.stop - piece.start
    return OBJECT_COST + (length if piece.is_whole else most)


def _cost_of_bin(each: Bin) -> int:
    return FILE_COST + OBJECT_COST * len(each.pieces) + each.bytes
