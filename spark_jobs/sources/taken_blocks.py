"""Blocks of sixteen runs each: what `stage` asks of earlier runs, without all their manifests.

A block has the entries of the manifests of consecutive runs, and sixteen blocks make a larger one. Rows are
sorted by what they are looked up by, so a reader decodes only the row groups that can hold the objects which
it asks for. `stage` reads at most 15 manifests and 15 blocks of each size. Blocks follow from manifests
alone and are named by their runs: a missing one is written again.

Kept of each object is its first and its last entry of the same version and content; of each segment every
version except those that a later run inherited as a whole. `FACTS` are read by every run: topic and
cluster ids, captured topics, known sources and decisions of replays, each with its first and last entry.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import topic_of
from spark_jobs.lake.layout import TAKEN, taken_key
from spark_jobs.lake.manifest import (
    Manifest,
    ManifestEntry,
    ObjectRole,
    SourcePath,
    read_entry,
    read_run_manifest,
    written_entry,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput, iter_groups_where, read_table
from spark_jobs.sources.inheritance import TakenSegment, place_of, taken_segments
from spark_jobs.sources.taken import Taken

VERSION = 1
RUNS_PER_BLOCK = 16
ROWS_PER_GROUP = 8_192
READERS = 8
FACTS, OBJECTS, SEGMENTS = "0/", "1/", "2/"
"""First characters of `place`: rows that are always read, by path, and by path below the date."""
_FIELDS: "tuple[pa.Field[Any], ...]" = (
    pa.field("place", pa.string()),
    pa.field("directory", pa.string()),
    pa.field("same", pa.string()),
    pa.field("rank", pa.int64()),
    pa.field("day", pa.string()),
    pa.field("run_id", pa.string()),
    pa.field("following", pa.int64()),
    pa.field("supersedes", pa.bool_()),
    pa.field("line", pa.string()),
)
SCHEMA = pa.schema(_FIELDS)
"""Rows of one `place` and `same` are entries of equal content, in the order of `rank`.

`rank` is the number of the run in the block, then that of the row in its manifest. `supersedes`: an earlier
row of the same content is not needed any more. `line` is the entry as its manifest has it; that of a decision
is empty.
"""
RANKS_PER_RUN = 1 << 32
Row = tuple[str, str, str, int, str, str, int, bool, str]


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """The objects that a run may take, as places of blocks."""

    places: frozenset[str]
    directories: frozenset[str]
    in_order: tuple[str, ...]

    def allows(self, low: str, high: str) -> bool:
        """Whether rows between these two places can be among them."""
        if low < OBJECTS:
            return True
        first = bisect_left(self.in_order, low)
        is_between = first < len(self.in_order) and self.in_order[first] <= high
        return is_between or any(f"{above}/" in self.directories for above in _directories_above(low))

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those rows of a block that belong to them."""
        is_fact = pc.less(rows["place"], pa.scalar(OBJECTS))
        is_listed = pc.is_in(rows["place"], value_set=_strings(self.places))
        is_beside = pc.is_in(rows["directory"], value_set=_strings(self.directories))
        return rows.filter(pc.or_(pc.or_(is_fact, is_listed), is_beside))


def _strings(values: Collection[str]) -> "pa.StringArray":
    return pa.array(values, pa.string())


def read_taken(
    settings: Settings, lake: ObjectStore, run_ids: Sequence[str], objects: Iterable[SourcePath]
) -> Taken:
    """What these final runs, in order, have taken of `objects` and beside them, and all facts.

    Other objects, of other directories, may be missing.
    """
    layouts = {source.name: source.dates for source in settings.sources}
    blocks = _Blocks(lake, layouts)
    wanted = _wanted(objects, layouts)
    taken = Taken()
    done = 0
    for size in _sizes(len(run_ids)):
        while done + size <= len(run_ids):
            _add(taken, blocks.rows(run_ids[done : done + size], wanted))
            done += size
    with ThreadPoolExecutor(READERS) as readers:
        rest = run_ids[done:]
        manifests = readers.map(lambda run_id: read_run_manifest(lake, run_id), rest)
        for run_id, manifest in zip(rest, manifests, strict=True):
            taken.add(manifest, run_id)
    return taken


def _sizes(count: int) -> list[int]:
    """Runs per block, the largest first."""
    size, found = RUNS_PER_BLOCK, list[int]()
    while size <= count:
        found.insert(0, size)
        size *= RUNS_PER_BLOCK
    return found


def _wanted(objects: Iterable[SourcePath], layouts: dict[str, str | None]) -> BlockFilter:
    places, directories = set[str](), set[str]()
    for source, path in objects:
        places.add(f"{OBJECTS}{source}/{path}")
        places.add(f"{SEGMENTS}{'/'.join(place_of(source, path, layouts))}")
        directories.add(_directory(source, path.rpartition("/")[0]))
    return BlockFilter(frozenset(places), frozenset(directories), tuple(sorted(places | directories)))


def _directory(source: str, directory: str) -> str:
    """With a slash at its end, so that it sorts directly before the objects in it."""
    return f"{OBJECTS}{source}/{directory}/" if directory else f"{OBJECTS}{source}/"


def _directories_above(place: str) -> Iterator[str]:
    while "/" in place:
        place = place.rpartition("/")[0]
        yield place


def _add(taken: Taken, rows: pa.Table) -> None:
    """Adds the rows of a block in the order of its runs."""
    for row in rows.sort_by("rank").to_pylist():
        if not row["line"]:
            taken.decisions.add(row["same"])
            continue
        entry = read_entry(json.loads(row["line"]))
        if row["place"].startswith(SEGMENTS):
            found = TakenSegment(run_id=row["run_id"], entry=entry, following=row["following"])
            taken.segments.append(found)
        else:
            taken.add_entry(entry, date.fromisoformat(row["day"]))


class _Blocks:
    """The blocks of a lake; one that is missing is written when it is read."""

    def __init__(self, lake: ObjectStore, layouts: dict[str, str | None]) -> None:
        self._lake, self._layouts = lake, layouts

    def rows(self, run_ids: Sequence[str], wanted: BlockFilter) -> pa.Table:
        """The wanted rows of the block of these runs."""
        key = self._written(run_ids)
        found = iter_groups_where(self._lake, key, "place", wanted.allows, columns=SCHEMA.names)
        return pa.Table.from_batches([wanted.of(batch) for batch in found], SCHEMA)

    def _written(self, run_ids: Sequence[str]) -> str:
        name = digest_of([VERSION, sorted(self._layouts.items()), list(run_ids)])
        if self._lake.stat(taken_key(name)) is None:
            self._write(f"{name}.parquet", run_ids)
        return taken_key(name)

    def _write(self, name: str, run_ids: Sequence[str]) -> None:
        table = _pruned(self._joined(run_ids))
        with ParquetOutput(self._lake, SCHEMA) as output:
            for start in range(0, table.num_rows, ROWS_PER_GROUP):
                output.write(table.slice(start, ROWS_PER_GROUP))
            output.finish(TAKEN.removesuffix("/"), name)
        self._lake.make_durable([f"{TAKEN}{name}"])

    def _joined(self, run_ids: Sequence[str]) -> pa.Table:
        size = len(run_ids) // RUNS_PER_BLOCK
        if size > 1:
            parts = [run_ids[start : start + size] for start in range(0, len(run_ids), size)]
            tables = [read_table(self._lake, self._written(part)) for part in parts]
        else:
            with ThreadPoolExecutor(READERS) as readers:
                tables = list(readers.map(self._of_run, run_ids))
        return pa.concat_tables(
            _later(table, number * max(size, 1) * RANKS_PER_RUN) for number, table in enumerate(tables)
        )

    def _of_run(self, run_id: str) -> pa.Table:
        manifest = read_run_manifest(self._lake, run_id)
        columns = zip(*_rows(run_id, manifest, self._layouts), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA) if arrays else SCHEMA.empty_table()


def _later(table: pa.Table, ranks: int) -> pa.Table:
    place = table.schema.get_field_index("rank")
    return table.set_column(place, SCHEMA.field("rank"), pc.add(table["rank"], ranks))


def _rows(run_id: str, manifest: Manifest, layouts: dict[str, str | None]) -> Iterator[Row]:
    """The rows of one run, ranked from 0."""
    day, lines = manifest.day.isoformat(), [written_entry(entry) for entry in manifest.entries]
    facts: dict[str, list[Row]] = {}
    for rank, (entry, line) in enumerate(zip(manifest.entries, lines, strict=True)):
        directory = "" if entry.role is ObjectRole.CAPTURE else _directory(entry.source, entry.directory)
        place, same = f"{OBJECTS}{entry.source}/{entry.path}", f"{entry.version} {entry.content}"
        yield place, directory, same, rank, day, run_id, 0, False, line
        for fact in _facts(entry):
            row = fact, "", "", rank, day, run_id, 0, False, line
            facts[fact] = [*facts.get(fact, [])[:1], row]
    for found in facts.values():
        yield from found
    ranks = {id(entry): rank for rank, entry in enumerate(manifest.entries)}
    for segment in taken_segments(run_id, manifest):
        entry, rank = segment.entry, ranks[id(segment.entry)]
        place = f"{SEGMENTS}{'/'.join(place_of(entry.source, entry.path, layouts))}"
        same = f"{entry.content} {segment.following} {entry.topic_id}"
        supersedes = entry.inherited and entry.inherited_bytes > 0
        yield place, "", same, rank, day, run_id, segment.following, supersedes, lines[rank]
    for replay in manifest.replays:
        yield f"{FACTS}decision", "", replay.decision, 0, day, run_id, 0, False, ""


def _facts(entry: ManifestEntry) -> Iterator[str]:
    """What every later run asks of the entry, by names that equal answers share."""
    yield f"{FACTS}source/{entry.source}"
    if entry.topic_id:
        yield f"{FACTS}log/{topic_of(entry.topic)}/{entry.topic_id}"
    if entry.cluster_id:
        yield f"{FACTS}cluster/{entry.source}/{entry.content}/{entry.cluster_id}"
    if entry.role is ObjectRole.PARTITION_METADATA:
        yield f"{FACTS}metadata/{entry.topic}/{entry.content}"
    if entry.origin is AppendOrigin.CLIENT:
        yield f"{FACTS}captured/{topic_of(entry.topic)}"


def _pruned(table: pa.Table) -> pa.Table:
    """The rows sorted by place, without those that no run asks for any more."""
    ordered = table.sort_by([(name, "ascending") for name in ("place", "same", "rank")])
    rows = ordered.combine_chunks()
    if rows.num_rows < 2:
        return rows
    follows = np.logical_and(_equals_next(rows, "place"), _equals_next(rows, "same"))
    has_next, has_previous = np.append(follows, False), np.insert(follows, 0, False)
    is_segment = _numpy(pc.starts_with(rows["place"], SEGMENTS))
    is_superseded = np.append(follows & _numpy(rows["supersedes"])[1:], False)
    dropped = np.where(is_segment, is_superseded, has_next & has_previous)
    return rows.filter(pa.array(~dropped))


def _equals_next(rows: pa.Table, column: str) -> npt.NDArray[np.bool_]:
    values = rows[column]
    return _numpy(pc.equal(values[:-1], values[1:]))


def _numpy(values: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found
