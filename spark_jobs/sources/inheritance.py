"""Segments that a run inherits from an earlier run: of a copy of a broker's log only new bytes are read.

A segment is the same if its source, its path below the date's directory, its bytes and the next segment are
the same, and its topic id does not differ. Then an earlier run has judged all its batches, and the state has
what later runs need of them: the entry is `inherited` and only listed. If the segment has grown and an
earlier version is a prefix of it, reading starts after the whole batches of that version. Bytes are compared
by their digest; a store's version only saves reading them.

The coordinators' logs are compacted and folded as a whole, so they are always read. Segments of a partition
that is also captured are not judged, so they are not inherited either.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.checksums import algorithm_of, labelled, new_hasher
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.index_rows import base_offset_of
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import SEGMENT_ROLES, Manifest, ManifestEntry, SourcePath, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.sources.source import Placed, split_date
from spark_jobs.tables.admit import REACH

CHUNK_BYTES = 4 * 2**20
NO_SEGMENT = -1
"""In place of the next segment's base offset: the segment is the active one of its copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The bytes of an object that are whole batches, and the offset after them; zeros if unknown."""

    position: int = 0
    next_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSegment:
    """A segment as a run had it; `following` is the base offset of the next one in its copy."""

    run_id: str
    entry: ManifestEntry
    following: int


class SegmentHistory:
    """The segments that final runs have taken, by their place below the source's dates."""

    def __init__(self, settings: Settings, lake: ObjectStore, segments: Iterable[TakenSegment]) -> None:
        """`segments` by ascending date of their runs."""
        self._layouts = {source.name: source.dates for source in settings.sources}
        self._lake = lake
        self._reaches: dict[str, dict[int, Reach]] = {}
        self._taken: dict[SourcePath, list[TakenSegment]] = defaultdict(list)
        for each in segments:
            self._taken[self._place(each.entry.source, each.entry.path)].append(each)

    def alike(self, placed: Placed) -> list[ManifestEntry]:
        """Segments of the same path and size that earlier runs had: candidates for the same content."""
        return [each.entry for each in self._known(placed) if each.entry.size == placed.stat.size]

    def newest_prefix(self, placed: Placed) -> ManifestEntry | None:
        """The newest version that can be a prefix of the segment."""
        return _newest_below(placed.stat.size, self._known(placed))

    def prefixes(self, entries: Iterable[ManifestEntry], staged: StagedObjects) -> dict[SourcePath, str]:
        """Digests of the prefixes of staged segments that have the size of the newest earlier version."""
        found: dict[SourcePath, str] = {}
        for entry in entries:
            is_judged = entry.role in SEGMENT_ROLES and entry.topic not in INTERNAL_TOPICS
            known = self._taken.get(self._place(entry.source, entry.path), []) if is_judged else []
            newest = _newest_below(entry.size, known)
            if newest is not None:
                is_known = entry.inherited_from == newest.content
                found[entry.source, entry.path] = (
                    newest.content if is_known else _digest_of_prefix(entry, newest, staged)
                )
        return found

    def inherit(self, manifest: Manifest, prefixes: Mapping[SourcePath, str]) -> Manifest:
        """The manifest with what its run inherits; `prefixes` are digests of prefixes of its objects."""
        following = following_segments(manifest.entries)
        judged = {entry.order for entry in judged_segments(manifest)}
        entries = (
            self._inherit(_without_inheritance(entry), following[entry.order], _digests(entry, prefixes))
            if entry.order in judged
            else entry
            for entry in manifest.entries
        )
        return replace(manifest, entries=tuple(entries))

    def _inherit(self, entry: ManifestEntry, following: int, digests: Collection[str]) -> ManifestEntry:
        known = [
            each
            for each in reversed(self._taken.get(self._place(entry.source, entry.path), []))
            if each.entry.content in digests and _is_same_topic(each.entry, entry)
        ]
        for each in known:
            is_same = each.entry.content == entry.content and each.following == following
            reach = self._reach(each)
            # The end of an active segment is known only by its reach; a closed one ends at the next segment.
            if is_same and entry.size and (following != NO_SEGMENT or reach.position):
                return _with_inheritance(entry, each, reach, is_whole=True)
        reaches = ((each, self._reach(each)) for each in known)
        found = next(((each, reach) for each, reach in reaches if reach.position), None)
        return entry if found is None else _with_inheritance(entry, *found, is_whole=False)

    def _known(self, placed: Placed) -> list[TakenSegment]:
        if placed.role not in SEGMENT_ROLES or placed.topic in INTERNAL_TOPICS:
            return []
        return self._taken.get(self._place(placed.source.name, placed.path), [])

    def _place(self, source: str, path: str) -> SourcePath:
        return place_of(source, path, self._layouts)

    def _reach(self, segment: TakenSegment) -> Reach:
        """How far the run has read the segment, or how far it inherited the segment itself."""
        entry = segment.entry
        inherited = Reach(position=entry.inherited_bytes, next_offset=entry.next_offset)
        if entry.inherited:
            return inherited
        if segment.run_id not in self._reaches:
            self._reaches[segment.run_id] = read_reaches(self._lake, segment.run_id)
        return self._reaches[segment.run_id].get(entry.order, inherited)


def place_of(source: str, path: str, layouts: Mapping[str, str | None]) -> SourcePath:
    """Source and path below the date, which copies of a segment share; `layouts` are the sources' dates."""
    return source, split_date(path, layouts.get(source))[1]


def taken_segments(run_id: str, manifest: Manifest) -> Iterator[TakenSegment]:
    """The segments that the run of this manifest has judged."""
    following = following_segments(manifest.entries)
    for entry in judged_segments(manifest):
        yield TakenSegment(run_id=run_id, entry=entry, following=following[entry.order])


def following_segments(entries: Iterable[ManifestEntry]) -> dict[int, int]:
    """The base offset of the next segment in its copy, or `NO_SEGMENT`, by the order of each segment."""
    copies: dict[SourcePath, list[tuple[int, int]]] = defaultdict(list)
    for entry in entries:
        if entry.role in SEGMENT_ROLES:
            copies[entry.source, entry.copy_directory].append((base_offset_of(entry), entry.order))
    found: dict[int, int] = {}
    for segments in copies.values():
        ordered = sorted(segments)
        behind = [*(start for start, _ in ordered), NO_SEGMENT][1:]
        found |= {order: start for (_, order), start in zip(ordered, behind, strict=True)}
    return found


def judged_segments(manifest: Manifest) -> Iterator[ManifestEntry]:
    """The segments whose batches get verdicts in the run of this manifest."""
    captured = {
        (entry.topic, entry.partition) for entry in manifest.entries if entry.origin is AppendOrigin.CLIENT
    }
    for entry in manifest.entries:
        is_internal = entry.topic in INTERNAL_TOPICS
        if entry.role in SEGMENT_ROLES and not is_internal and (entry.topic, entry.partition) not in captured:
            yield entry


def _digests(entry: ManifestEntry, prefixes: Mapping[SourcePath, str]) -> set[str]:
    """The digests of the object and of its known prefix."""
    return {entry.content, prefixes.get((entry.source, entry.path), entry.content)}


def _newest_below(size: int, known: list[TakenSegment]) -> ManifestEntry | None:
    return next((each.entry for each in reversed(known) if 0 < each.entry.size < size), None)


def _digest_of_prefix(entry: ManifestEntry, newest: ManifestEntry, staged: StagedObjects) -> str:
    """The digest of as many leading bytes as `newest` has; empty if they cannot be read any more."""
    algorithm = algorithm_of(newest.content)
    total = new_hasher(algorithm)
    try:
        for start in range(0, newest.size, CHUNK_BYTES):
            total.update(staged.read_range(entry, start, min(CHUNK_BYTES, newest.size - start)))
    except StorageError as error:
        if error.transient:
            raise
        return ""
    return labelled(algorithm, total.hexdigest())


def _is_same_topic(one: ManifestEntry, other: ManifestEntry) -> bool:
    return not one.topic_id or not other.topic_id or one.topic_id == other.topic_id


def _without_inheritance(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, inherited=False, inherited_bytes=0, inherited_from="", next_offset=0)


def _with_inheritance(
    entry: ManifestEntry, taken: TakenSegment, reach: Reach, *, is_whole: bool
) -> ManifestEntry:
    return replace(
        entry,
        inherited=is_whole,
        inherited_bytes=reach.position,
        inherited_from=taken.entry.content,
        next_offset=reach.next_offset,
    )


def put_reaches(folder: RunFolder, reaches: Mapping[int, Reach]) -> OutputFile:
    """Writes the table `reach` of `admit`; keys are object orders."""
    rows = [
        {"object_order": order, "position": reach.position, "next_offset": reach.next_offset}
        for order, reach in sorted(reaches.items())
    ]
    table = REACH.cast(pa.Table.from_pylist(rows, schema=REACH.schema))
    return put_table(folder.lake, folder.key(Step.ADMIT), REACH.file, table)


def read_reaches(lake: ObjectStore, run_id: str) -> dict[int, Reach]:
    """The table `reach` of a run; empty where it was written by an earlier version, or has expired."""
    key = step_key(run_id, Step.ADMIT, REACH.file)
    if lake.stat(key) is None:
        return {}
    columns = read_table(lake, key).to_pydict()
    return {
        order: Reach(position=position, next_offset=next_offset)
        for order, position, next_offset in zip(*columns.values(), strict=True)
    }
