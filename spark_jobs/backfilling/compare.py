"""How a day's objects differ from those of its run; bytes are read only where metadata does not decide."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from spark_jobs.backfilling.inputs import DayInputs, Where, own_entries
from spark_jobs.backfilling.outlook import Reason, Why, reason
from spark_jobs.config.settings import Settings
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import Fetched, Taken, entry_of, new_content
from spark_jobs.storage.checksums import algorithm_of, labelled, new_hasher
from spark_jobs.storage.errors import StorageError
from spark_jobs.storage.manifest import Manifest, ManifestEntry


@dataclass(slots=True)
class Known:
    """All objects of current runs: digests by version, sizes, and the last run of each."""

    digests: dict[tuple[str, str, str], str] = field(default_factory=dict)
    algorithms: dict[Where, str] = field(default_factory=dict)
    sizes: dict[Where, set[int]] = field(default_factory=dict)
    last_day: dict[Where, date] = field(default_factory=dict)


def known_objects(manifests: Mapping[date, Manifest]) -> Known:
    """Built from `manifests` in ascending order of dates."""
    known = Known()
    for day, manifest in manifests.items():
        for entry in own_entries(manifest):
            where = entry.source, entry.path
            known.digests[*where, entry.version] = entry.content
            known.algorithms[where] = algorithm_of(entry.content)
            known.sizes.setdefault(where, set()).add(entry.size)
            known.last_day[where] = day
    return known


def entries_now(
    settings: Settings, inputs: DayInputs, known: Known, taken: Taken
) -> tuple[ManifestEntry, ...]:
    """The day's objects as `stage` would find them; an unknown object gets a digest of its own."""
    fetched = (Fetched(placed=each, digest=_digest(settings, each, known)) for each in inputs.listed)
    return (*inputs.kept, *(entry_of(each, taken) for each in new_content(fetched, taken)))


def _digest(settings: Settings, placed: Placed, known: Known) -> str:
    where = placed.source.name, placed.path
    digest = known.digests.get((*where, placed.stat.version))
    if digest is not None:
        return digest
    if placed.stat.size not in known.sizes.get(where, ()):
        return f"unread {placed.stat.version}"
    return known.digests.setdefault(
        (*where, placed.stat.version), _read(settings, placed, known.algorithms[where])
    )


def _read(settings: Settings, placed: Placed, algorithm: str) -> str:
    """Same size, new modification time: only its bytes show whether it has changed."""
    total = new_hasher(algorithm)
    try:
        for piece in reader_of(placed.source).open(settings).chunks(placed.path, version=placed.stat.version):
            total.update(piece)
    except StorageError as error:
        if error.transient:
            raise
        return f"unreadable {placed.stat.version}"
    return labelled(algorithm, total.hexdigest())


def object_reasons(
    standing: Manifest, now: Iterable[ManifestEntry], known: Known, taken: Taken
) -> Iterator[Reason]:
    """Why the day's objects make it run again."""
    before = {(entry.source, entry.path): entry.content for entry in own_entries(standing)}
    after = {(entry.source, entry.path): entry.content for entry in now}
    found: dict[Why, list[str]] = {}
    for where in sorted(before.keys() | after.keys()):
        had, has = before.get(where), after.get(where)
        if had == has:
            continue
        if had is None:
            why = Why.LATE if known.last_day.get(where, standing.day) > standing.day else Why.NEW
        elif has is None:
            why = Why.MOVED if taken.has(*where, had) else Why.VANISHED
        else:
            why = Why.CHANGED
        found.setdefault(why, []).append("/".join(where))
    return (reason(why, tuple(found[why])) for why in Why if why in found)
