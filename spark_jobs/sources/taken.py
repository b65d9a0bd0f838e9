"""The objects that earlier runs have taken, and the manifest of new ones: each object belongs to one run.

A run of date D takes every object of a date up to D that no current run of an earlier date has taken. So an
object that arrives late for D-1 is taken by the run of D, and a backfill of D takes the objects of D and late
ones. An object is identified by source, path and content: other bytes at the same path are a new object.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.kafka.topic_partition import topic_of
from spark_jobs.lake.checksums import SHA256, algorithm_of
from spark_jobs.lake.manifest import Manifest, ManifestEntry, StageProblem
from spark_jobs.sources.inheritance import TakenSegment, taken_segments
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """A log of a topic that earlier runs have taken: its name, and the run date of the first one."""

    name: str
    since: date | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Objects of earlier runs: by version, to skip them without reading, and by content.

    `decisions` are the replays of these runs, `logs` their logs by topic and topic id, oldest first.
    `segments` are those that later runs may inherit, in the order of the runs.
    """

    by_version: dict[tuple[str, str, str], ManifestEntry] = field(default_factory=dict)
    contents: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    decisions: set[str] = field(default_factory=set)
    logs: dict[str, dict[str, KnownLog]] = field(default_factory=dict)
    segments: list[TakenSegment] = field(default_factory=list)

    def same_version(self, source: str, path: str, version: str) -> ManifestEntry | None:
        """The entry of this very version, if an earlier run took it."""
        return self.by_version.get((source, path, version))

    def has(self, source: str, path: str, digest: str) -> bool:
        """Whether an earlier run took these bytes under this name."""
        return digest in self.contents.get((source, path), ())

    def add(self, manifest: Manifest, run_id: str = "") -> None:
        """Adds the objects, replays and logs in a manifest, and the segments that the run has judged."""
        self.decisions.update(replay.decision for replay in manifest.replays)
        for entry in manifest.entries:
            self.add_entry(entry, manifest.day)
        if run_id:
            self.segments.extend(taken_segments(run_id, manifest))

    def add_entry(self, entry: ManifestEntry, day: date) -> None:
        """Adds an object that the run of `day` has taken, and its log."""
        self.by_version[entry.source, entry.path, entry.version] = entry
        self.contents.setdefault((entry.source, entry.path), set()).add(entry.content)
        if entry.topic_id:
            logs = self.logs.setdefault(topic_of(entry.topic), {})
            logs.setdefault(entry.topic_id, KnownLog(name=entry.topic, since=day))


def taken_by(manifests: Iterable[Manifest]) -> Taken:
    """The objects of all these manifests."""
    taken = Taken()
    for manifest in manifests:
        taken.add(manifest)
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An object whose content is known; `is_here` if its bytes can be read, in the lake or at the source.

    `digest` is one of `lake.checksums`. `other` is a second one, where earlier runs know the object by
    another algorithm. `prefix` is the digest of as many leading bytes as were asked for.
    """

    placed: Placed
    digest: str
    other: str = ""
    prefix: str = ""
    is_here: bool = True

    @property
    def where(self) -> tuple[str, str]:
        """Source and path."""
        return self.placed.where


def is_updated_in_place(source: Source) -> bool:
    """Whether every run takes the source as it is, so that its objects are never left out as taken."""
    return reader_of(source).is_updated_in_place


def not_taken(placed: Iterable[Placed], taken: Taken) -> tuple[Placed, ...]:
    """The objects that no earlier run has taken in this version."""
    return tuple(
        each
        for each in placed
        if is_updated_in_place(each.source)
        or taken.same_version(each.source.name, each.path, each.stat.version) is None
    )


def described(
    placed: Iterable[Placed], settings: Settings
) -> tuple[tuple[Placed, ...], tuple[StageProblem, ...]]:
    """The objects with what is known only from their sources' bytes, and those that are set aside for it."""
    by_source: dict[str, list[Placed]] = {}
    for each in placed:
        by_source.setdefault(each.source.name, []).append(each)
    found = [
        each for same in by_source.values() for each in reader_of(same[0].source).describe(same, settings)
    ]
    return (
        tuple(each for each in found if isinstance(each, Placed)),
        tuple(each for each in found if isinstance(each, StageProblem)),
    )


def new_content(fetched: Iterable[Fetched], taken: Taken) -> tuple[Fetched, ...]:
    """The objects that no earlier run has taken with this content."""
    return tuple(
        each
        for each in fetched
        if is_updated_in_place(each.placed.source)
        or not any(taken.has(*each.where, digest) for digest in (each.digest, each.other) if digest)
    )


def build_manifest(
    day: date, fetched: Iterable[Fetched], problems: Iterable[StageProblem], taken: Taken
) -> Manifest:
    """The manifest in arrival order: within a topic-partition by date, then object name."""
    return as_manifest(day, (entry_of(each, taken) for each in fetched), problems)


def as_manifest(day: date, entries: Iterable[ManifestEntry], problems: Iterable[StageProblem]) -> Manifest:
    """Entries numbered in arrival order, problems by place."""
    ordered = sorted(entries, key=_arrival)
    return Manifest(
        day=day,
        entries=tuple(replace(entry, order=order) for order, entry in enumerate(ordered)),
        problems=tuple(sorted(problems, key=lambda problem: (problem.source, problem.path))),
    )


def _arrival(entry: ManifestEntry) -> tuple[str, int, str, str, str, str]:
    return entry.topic, entry.partition, entry.day, entry.name, entry.source, entry.path


def entry_of(fetched: Fetched, taken: Taken) -> ManifestEntry:
    """The object as a manifest entry, not numbered yet."""
    placed, digest = fetched.placed, fetched.digest
    is_sha256 = algorithm_of(digest) == SHA256
    return ManifestEntry(
        order=0,
        source=placed.source.name,
        role=placed.role,
        topic=placed.topic,
        partition=placed.partition,
        day=placed.day.isoformat() if placed.day else "",
        path=placed.path,
        size=placed.stat.size,
        sha256=digest if is_sha256 else "",
        checksum="" if is_sha256 else digest,
        version=placed.stat.version,
        copied_at=placed.stat.modified_at,
        referenced=placed.source.immutable,
        topic_id=placed.topic_id,
        copy=placed.copy,
        state_offset=placed.state_offset,
        seen=taken.has(*fetched.where, digest),
    )
