"""The objects that a night may take: every source listed, each object placed, each date compared."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import chain

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source, SourceKind
from spark_jobs.storage.fetch import Fetched
from spark_jobs.storage.manifest import NO_PARTITION, Manifest, ManifestEntry, StageProblem
from spark_jobs.storage.object_store import ObjectStat, ObjectStore
from spark_jobs.storage.placement import Placed, place
from spark_jobs.storage.stores import open_source
from spark_jobs.storage.taken import Taken
from spark_jobs.storage.unrecognised import Unrecognised, first_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What was found: objects that may be taken, objects set aside, and how many are of no use to a run.

    `unrecognised` are sources without a single object of a partition, whatever its date.
    """

    placed: tuple[Placed, ...]
    problems: tuple[StageProblem, ...]
    ignored: int
    unrecognised: tuple[Unrecognised, ...] = ()

    def of(self, day: date) -> "Night":
        """What a night of that date may take, if the listing reached as far back as its sources do."""
        return replace(self, placed=tuple(each for each in self.placed if _is_in_reach(each, day)))


def list_night(settings: Settings, day: date, *, first: date | None = None) -> Night:
    """Every object of a date up to `day`, from all sources; from `first` on, whatever a night may take."""
    found = [_place_all(settings, source, first or day, day) for source in settings.sources]
    return Night(
        placed=tuple(chain.from_iterable(each.placed for each in found)),
        problems=tuple(chain.from_iterable(each.problems for each in found)),
        ignored=sum(each.ignored for each in found),
        unrecognised=tuple(chain.from_iterable(each.unrecognised for each in found)),
    )


def _place_all(settings: Settings, source: Source, first: date, day: date) -> Night:
    """The objects of one source."""
    placed: list[Placed] = []
    problems: list[StageProblem] = []
    examples: list[str] = []
    objects, is_recognised = 0, False
    for stat in _list_source(source, open_source(settings, source), first, day):
        objects += 1
        found = place(source, stat)
        is_recognised = is_recognised or (isinstance(found, Placed) and found.partition != NO_PARTITION)
        if not is_recognised:
            examples = first_paths(examples, stat.key)
        if isinstance(found, StageProblem):
            problems.append(found)
        elif found is not None and (found.day is None or found.day <= day):
            placed.append(found)
    bare = Unrecognised(source=source, objects=objects, examples=tuple(examples))
    return Night(
        placed=tuple(placed),
        problems=tuple(problems),
        ignored=objects - len(placed) - len(problems),
        unrecognised=() if is_recognised else (bare,),
    )


def _list_source(source: Source, store: ObjectStore, first: date, last: date) -> Iterator[ObjectStat]:
    if source.dates is None or source.lookback_days is None:
        yield from store.list()
        return
    for back in range((last - first).days + source.lookback_days, -1, -1):
        yield from store.list((last - timedelta(days=back)).strftime(source.dates))


def _is_in_reach(placed: Placed, day: date) -> bool:
    lookback = placed.source.lookback_days
    if placed.day is None:
        return True
    return placed.day <= day and (lookback is None or placed.day >= day - timedelta(days=lookback))


def takes_whole(source: Source) -> bool:
    """Whether every night takes the source as it stands: a log directory that is copied over itself."""
    return source.kind is SourceKind.BROKER_LOG and source.dates is None


def not_taken(placed: Iterable[Placed], taken: Taken) -> tuple[Placed, ...]:
    """Those that no earlier night has taken in this version."""
    return tuple(
        each
        for each in placed
        if takes_whole(each.source)
        or taken.same_version(each.source.name, each.path, each.stat.version) is None
    )


def new_content(fetched: Iterable[Fetched], taken: Taken) -> tuple[Fetched, ...]:
    """Those that no earlier night has taken with these bytes, now that the bytes are known."""
    return tuple(
        each
        for each in fetched
        if takes_whole(each.placed.source)
        or not taken.has(each.placed.source.name, each.placed.path, each.sha256)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the sources differ from a fixed manifest: counts of objects, by what a listing shows.

    `changed` objects have another size, modification time or ETag; their bytes may still be the same.
    """

    new: int = 0
    changed: int = 0
    vanished: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.vanished)


def drift_of(manifest: Manifest, placed: Iterable[Placed], taken: Taken) -> Drift:
    """What a new listing would change about `manifest`; no object is read."""
    # Only a replayed batch has no version: it does not come from a source.
    fixed = {(entry.source, entry.path): entry.version for entry in manifest.entries if entry.version}
    listed = {(each.source.name, each.path): each for each in placed}
    candidates = not_taken((each for where, each in listed.items() if where not in fixed), taken)
    return Drift(
        new=len(candidates),
        changed=sum(where in listed and listed[where].stat.version != fixed[where] for where in fixed),
        vanished=sum(where not in listed for where in fixed),
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
    """The object as a manifest tells of it, not numbered yet."""
    placed = fetched.placed
    return ManifestEntry(
        order=0,
        source=placed.source.name,
        role=placed.role,
        topic=placed.topic,
        partition=placed.partition,
        day=placed.day.isoformat() if placed.day else "",
        path=placed.path,
        size=placed.stat.size,
        sha256=fetched.sha256,
        version=placed.stat.version,
        copied_at=placed.stat.modified_at,
        referenced=placed.source.immutable,
        seen=taken.has(placed.source.name, placed.path, fetched.sha256),
        rewritten=not takes_whole(placed.source)
        and taken.has_other(placed.source.name, placed.path, fetched.sha256),
    )
