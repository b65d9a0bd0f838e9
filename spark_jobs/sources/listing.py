"""Lists the objects of all sources, and compares a listing with a fixed manifest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import chain

from spark_jobs.config.settings import Settings
from spark_jobs.lake.manifest import NO_PARTITION, BareSource, Manifest, StageProblem
from spark_jobs.lake.object_store import printable
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed, SourceReader
from spark_jobs.sources.taken import Taken, not_taken

MOST_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecognised:
    """A source without an object of a partition: how many objects it has, and some of their paths."""

    reader: SourceReader
    objects: int
    examples: tuple[str, ...]

    def bare(self, taken: Taken) -> BareSource:
        """The source as a line of the manifest."""
        name = self.reader.source.name
        is_known = any(source == name for source, _ in taken.contents)
        return BareSource(bare=name, objects=self.objects, is_known=is_known, detail=_describe(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Objects that a run may take, and objects set aside.

    `unrecognised` are sources without an object of a partition at any date.
    """

    placed: tuple[Placed, ...]
    problems: tuple[StageProblem, ...]
    unrecognised: tuple[Unrecognised, ...] = ()

    def of(self, day: date) -> "Listing":
        """What a run of that date may take; the listing has to include its lookback days."""
        return replace(self, placed=tuple(each for each in self.placed if _is_in_reach(each, day)))


def list_sources(settings: Settings, day: date, *, first: date | None = None) -> Listing:
    """The objects of all sources that runs of the dates from `first` to `day` may take."""
    readers = map(reader_of, settings.sources)
    found = [_list_source(settings, reader, first or day, day) for reader in readers]
    return Listing(
        placed=tuple(chain.from_iterable(each.placed for each in found)),
        problems=tuple(chain.from_iterable(each.problems for each in found)),
        unrecognised=tuple(chain.from_iterable(each.unrecognised for each in found)),
    )


def _list_source(settings: Settings, reader: SourceReader, first: date, day: date) -> Listing:
    placed: list[Placed] = []
    problems: list[StageProblem] = []
    examples: list[str] = []
    objects, is_recognised = 0, False
    for stat in reader.objects(settings, first, day):
        objects += 1
        found = reader.place(stat)
        is_recognised = is_recognised or (isinstance(found, Placed) and found.partition != NO_PARTITION)
        if not is_recognised:
            examples = _first_paths(examples, stat.key)
        if isinstance(found, StageProblem):
            problems.append(found)
        elif found is not None and (found.day is None or found.day <= day):
            placed.append(found)
    bare = Unrecognised(reader=reader, objects=objects, examples=tuple(examples))
    return Listing(
        placed=tuple(placed), problems=tuple(problems), unrecognised=() if is_recognised else (bare,)
    )


def _first_paths(known: Sequence[str], path: str) -> list[str]:
    """The first few paths by name, independent of the order of the listing."""
    return sorted((*known, path))[:MOST_EXAMPLES]


def _describe(found: Unrecognised) -> str:
    source = found.reader.source
    below = f"{source.root}/{source.dates}" if source.dates else source.root
    if not found.objects:
        return f"no objects below {below}; expected {found.reader.expected}"
    count = "1 object" if found.objects == 1 else f"{found.objects:,} objects"
    shown = ", ".join(map(printable, found.examples))
    more = ", …" if found.objects > len(found.examples) else ""
    why = found.reader.why_unrecognised(found.examples)
    return f"{count} ({shown}{more}), none of them recognised: {why}"


def _is_in_reach(placed: Placed, day: date) -> bool:
    lookback = placed.source.lookback_days
    if placed.day is None:
        return True
    return placed.day <= day and (lookback is None or placed.day >= day - timedelta(days=lookback))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How a listing of the sources differs from a fixed manifest, in numbers of objects.

    `changed` objects have another size, modification time or ETag; their bytes may still be the same.
    """

    new: int = 0
    changed: int = 0
    vanished: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.vanished)


def drift_of(manifest: Manifest, placed: Iterable[Placed], taken: Taken) -> Drift:
    """How the listed objects differ from `manifest`; no object is read."""
    # A replayed batch has no version: it does not come from a source.
    fixed = {(entry.source, entry.path): entry.version for entry in manifest.entries if entry.version}
    listed = {each.where: each for each in placed}
    candidates = not_taken((each for where, each in listed.items() if where not in fixed), taken)
    return Drift(
        new=len(candidates),
        changed=sum(where in listed and listed[where].stat.version != fixed[where] for where in fixed),
        vanished=sum(where not in listed for where in fixed),
    )
