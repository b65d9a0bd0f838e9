"""The input objects of a backfilled day: those of its run, and for selected days what the sources hold now.

A source with dates is listed anew, since each object says to which day it belongs. Without dates an object
belongs to the run that took it first, so only its bytes can differ. A log directory that is copied over
itself shows today's log, not that of the day: its run keeps its inputs. To these come objects of later runs
with offsets that the day's run went past, because no copy had them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from spark_jobs.backfilling.request import BackfillRequest, UnfitRequest
from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.flow import Step
from spark_jobs.sources.listing import Listing
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import Taken, is_updated_in_place, not_taken
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.manifest import Manifest, ManifestEntry, StageProblem
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.replays import FOLDER
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.tables.admit import GAPS, GapStatus

Where = tuple[str, str]
"""Source and path of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayInputs:
    """`kept` entries of the day's run as they were, and objects `listed` now, whose bytes count.

    `missed` are those among `kept` that their source does not have any more.
    """

    kept: tuple[ManifestEntry, ...]
    listed: tuple[Placed, ...] = ()
    problems: tuple[StageProblem, ...] = ()
    missed: tuple[ManifestEntry, ...] = ()


def own_entries(manifest: Manifest) -> tuple[ManifestEntry, ...]:
    """What the run took from sources: everything except replays."""
    replayed = tuple({f"{FOLDER}/{replay.origin}/" for replay in manifest.replays})
    return tuple(entry for entry in manifest.entries if not entry.path.startswith(replayed))


def late_entries(lake: ObjectStore, chain: Chain, day: date) -> tuple[ManifestEntry, ...]:
    """Objects of later runs with offsets that the day's run went past, because no copy had them."""
    found: list[ManifestEntry] = []
    for later in (entry for entry in chain.current.values() if entry.day > day):
        key = step_key(later.run_id, Step.ADMIT, GAPS.file)
        rows = read_table(lake, key).to_pylist() if lake.stat(key) is not None else []
        names = {row["after"] for row in rows if row["status"] == GapStatus.LATE and row["found_on"] == day}
        if names:
            entries = read_run_manifest(lake, later.run_id).entries
            found += (entry for entry in entries if f"{entry.source}/{entry.path}" in names)
    return tuple({(*_where(entry), entry.content): entry for entry in found}.values())


def day_inputs(
    settings: Settings,
    request: BackfillRequest,
    standing: Manifest,
    taken: Taken,
    listing: Listing | None,
    *,
    late: Iterable[ManifestEntry] = (),
) -> DayInputs:
    """The inputs of a day; `standing` is what its run had, `taken` what runs of earlier dates have now.

    `listing` is what its sources have, None where only the run's own objects count. `late` objects of later
    runs fill gaps that the day's run went past.
    """
    own = tuple(entry for entry in own_entries(standing) if not _is_gone(settings, entry, taken))
    if listing is None:
        return DayInputs(kept=own, problems=standing.problems)
    known = {_where(entry) for entry in own_entries(standing)}
    found = tuple(each for each in listing.placed if _is_asked_for(request, each, known))
    missed = _missed(settings, request, own, found)
    kept = (*(entry for entry in own if not _is_listed(settings, request, entry)), *missed)
    filling = [entry for entry in late if request.takes(entry.source, entry.topic)]
    replaced = {_where(entry) for entry in filling}
    return DayInputs(
        kept=(*(entry for entry in kept if _where(entry) not in replaced), *filling),
        listed=not_taken(found, taken),
        problems=_problems(request, standing, listing.problems, found),
        missed=missed,
    )


def _is_gone(settings: Settings, entry: ManifestEntry, taken: Taken) -> bool:
    """Whether an earlier run has taken the object."""
    is_taken = taken.has(entry.source, entry.path, entry.content)
    return is_taken and not is_updated_in_place(_source(settings, entry))


def _source(settings: Settings, entry: ManifestEntry) -> Source:
    for source in settings.sources:
        if source.name == entry.source:
            return source
    raise UnfitRequest(
        f"{entry.source}/{entry.path}: the run has taken objects of the source '{entry.source}', which is "
        "no longer configured; configure it again for the backfill"
    )


def _where(entry: ManifestEntry) -> Where:
    return entry.source, entry.path


def _is_asked_for(request: BackfillRequest, placed: Placed, known: set[Where]) -> bool:
    source = placed.source
    if is_updated_in_place(source) or not request.takes(source.name, placed.topic):
        return False
    return source.dates is not None or (source.name, placed.path) in known


def _is_listed(settings: Settings, request: BackfillRequest, entry: ManifestEntry) -> bool:
    """Whether the source's current object counts rather than the one that the run had."""
    return request.takes(entry.source, entry.topic) and not is_updated_in_place(_source(settings, entry))


def _missed(
    settings: Settings, request: BackfillRequest, own: Iterable[ManifestEntry], found: Iterable[Placed]
) -> tuple[ManifestEntry, ...]:
    """Objects that their source has lost and whose copies in the lake are used on."""
    there = {(each.source.name, each.path) for each in found}
    return tuple(
        entry
        for entry in own
        if _is_listed(settings, request, entry)
        and _where(entry) not in there
        and not entry.referenced
        and not request.drop_vanished
    )


def _problems(
    request: BackfillRequest, standing: Manifest, now: tuple[StageProblem, ...], found: Iterable[Placed]
) -> tuple[StageProblem, ...]:
    """Objects set aside; the topic of a problem is unknown, so it is kept where only some topics are
    selected.
    """
    if request.takes_all:
        return now
    there = {(each.source.name, each.path) for each in found}
    return tuple(each for each in standing.problems if (each.source, each.path) not in there)
