"""The segments of a copy of a broker's log: start and end offset of each, from the file names."""

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.protocol.log_files import MAX_OFFSET, parse_file_name
from spark_jobs.protocol.log_order import OFFSETS_PER_SEGMENT
from spark_jobs.storage.manifest import ManifestEntry, ObjectRole


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlace:
    """A segment: all its offsets should be in `start` to `end` (excluded).

    `is_dense` if its topic is not compacted and nothing follows: then none of its offsets is missing, and its
    batches alone say where it ends.
    """

    object_order: int
    start: int
    end: int
    is_dense: bool = False


def segment_places(entries: Iterable[ManifestEntry], *, is_compacted: bool) -> tuple[SegmentPlace, ...]:
    """The segments of one copy; one that is read from the middle on begins at the offset there.

    Where its broker's cleaner has been says nothing about a compacted one: a replica that began later has
    the holes of the leader that it was fetched from.
    """
    named = sorted(((base_offset_of(entry), entry) for entry in entries), key=lambda each: each[0])
    following = [*(start for start, _ in named), MAX_OFFSET][1:]
    return tuple(
        SegmentPlace(
            object_order=entry.order,
            start=max(start, entry.next_offset),
            end=min(after, start + OFFSETS_PER_SEGMENT),
            is_dense=after == MAX_OFFSET and entry.role is ObjectRole.LOG and not is_compacted,
        )
        for (start, entry), after in zip(named, following, strict=True)
    )


def base_offset_of(entry: ManifestEntry) -> int:
    """The offset in the name of a segment."""
    file = parse_file_name(entry.name)
    return 0 if file is None else file.offset


def first_segments(entries: Iterable[ManifestEntry]) -> dict[tuple[str, str], int]:
    """Where the first segment of each copy begins, by source and directory."""
    found: dict[tuple[str, str], int] = {}
    for entry in entries:
        if entry.role is ObjectRole.LOG:
            place, offset = (entry.source, entry.directory), base_offset_of(entry)
            found[place] = min(found.get(place, offset), offset)
    return found
