"""A backfill: runs days again in order, one at a time, from what their sources hold now.

    plan_backfill(settings, request) -> BackfillPlan           what would change and why; writes nothing
    next_day(settings, request, after=None) -> date | None     the first day that has to run, after `after`
    run_backfill_day(settings, day, request, …) -> RunOutcome  that day as a whole

A backfill keeps no record of its progress: a day whose inputs have not changed is skipped. So an interrupted
backfill continues when the same request is made again. `execute_run(…, backfill=request)` runs a day step
by step: `stage` first, which fixes its inputs again, then the other steps with these inputs.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, read_chain
from spark_jobs.lake.checksums import HEADERS, algorithm_of, labelled, new_hasher
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.iceberg.holdings import check_catalog
from spark_jobs.lake.identity import open_at_home
from spark_jobs.lake.manifest import Manifest, ManifestEntry, SourcePath, read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.stage.backfill_inputs import (
    DayInputs,
    check_copies,
    day_inputs,
    late_entries,
    own_entries,
    replays_of_day,
)
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from spark_jobs.sources.listing import Listing, list_sources
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import Fetched, Taken, entry_of, new_content


class Why(StrEnum):
    """Why a day runs again."""

    NO_RUN = "no run yet"
    NEW = "new"
    LATE = "late"
    CHANGED = "changed"
    VANISHED = "vanished"
    MOVED = "moved"
    REPLAYS = "replays"
    CONFIG = "config"
    STATE = "state"
    IF_STATE = "if state"


SENTENCES: Mapping[Why, str] = {
    Why.NO_RUN: "the day has no current run, but later days have",
    Why.NEW: "{count} that arrived after the run and no run has taken",
    Why.LATE: "{count} that arrived late and a later run has taken",
    Why.CHANGED: "{count} with other bytes than before",
    Why.VANISHED: "{count} that their source does not have any more",
    Why.MOVED: "{count} that an earlier day takes now",
    Why.REPLAYS: "its replays of quarantined batches have changed",
    Why.CONFIG: "the configuration decides otherwise now",
    Why.STATE: "the previous run ends in another state than it started from",
    Why.IF_STATE: "if the state of {day} changes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason; `objects` are the `source/path` of the objects concerned."""

    why: Why
    sentence: str
    objects: tuple[str, ...] = ()


def reason(why: Why, objects: tuple[str, ...] = (), day: date | None = None) -> Reason:
    """The reason with its sentence."""
    count = f"{len(objects):,} object{'' if len(objects) == 1 else 's'}"
    return Reason(why=why, sentence=SENTENCES[why].format(count=count, day=day), objects=objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPlan:
    """One day; `run_id` is its current run, empty if there is none.

    `missed` counts objects that their source has lost; their copies in the lake are still used.
    """

    day: date
    run_id: str
    reasons: tuple[Reason, ...] = ()
    missed: int = 0

    @property
    def changes(self) -> bool:
        """Whether the day runs again for certain."""
        return any(each.why is not Why.IF_STATE for each in self.reasons)

    def to_plain(self) -> dict[str, Any]:
        """The plan in values that JSON can represent."""
        return {**asdict(self), "day": self.day.isoformat(), "changes": self.changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The requested days and those that would or might change, ascending."""

    request: BackfillRequest
    days: tuple[DayPlan, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything would run."""
        return any(day.changes for day in self.days)


@dataclass(slots=True)
class KnownObjects:
    """All objects of current runs: digests by version, sizes, and the last run of each."""

    digests: dict[tuple[str, str, str], str] = field(default_factory=dict)
    algorithms: dict[SourcePath, str] = field(default_factory=dict)
    sizes: dict[SourcePath, set[int]] = field(default_factory=dict)
    last_day: dict[SourcePath, date] = field(default_factory=dict)


def known_objects(manifests: Mapping[date, Manifest]) -> KnownObjects:
    """Built from `manifests` in ascending order of dates."""
    known = KnownObjects()
    for day, manifest in manifests.items():
        for entry in own_entries(manifest):
            where = entry.source, entry.path
            known.digests[*where, entry.version] = entry.content
            known.algorithms[where] = algorithm_of(entry.content)
            known.sizes.setdefault(where, set()).add(entry.size)
            known.last_day[where] = day
    return known


def entries_now(
    settings: Settings, inputs: DayInputs, known: KnownObjects, taken: Taken
) -> tuple[ManifestEntry, ...]:
    """The day's objects as `stage` would find them; an unknown object gets a digest of its own."""
    fetched = (Fetched(placed=each, digest=_digest(settings, each, known)) for each in inputs.listed)
    return (*inputs.kept, *(entry_of(each, taken) for each in new_content(fetched, taken)))


def _digest(settings: Settings, placed: Placed, known: KnownObjects) -> str:
    where = placed.source.name, placed.path
    digest = known.digests.get((*where, placed.stat.version))
    if digest is not None:
        return digest
    if placed.stat.size not in known.sizes.get(where, ()) or known.algorithms[where] == HEADERS:
        return f"unread {placed.stat.version}"
    return known.digests.setdefault(
        (*where, placed.stat.version), _read(settings, placed, known.algorithms[where])
    )


def _read(settings: Settings, placed: Placed, algorithm: str) -> str:
    """The digest of an object with a known size and a new modification time: only its bytes show a change."""
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
    current: Manifest, now: Iterable[ManifestEntry], known: KnownObjects, taken: Taken
) -> Iterator[Reason]:
    """How the day's objects differ from those in the manifest of its current run."""
    before = {(entry.source, entry.path): entry.content for entry in own_entries(current)}
    after = {(entry.source, entry.path): entry.content for entry in now}
    found: dict[Why, list[str]] = {}
    for where in sorted(before.keys() | after.keys()):
        had, has = before.get(where), after.get(where)
        if had == has:
            continue
        if had is None:
            why = Why.LATE if known.last_day.get(where, current.day) > current.day else Why.NEW
        elif has is None:
            why = Why.MOVED if taken.has(*where, had) else Why.VANISHED
        else:
            why = Why.CHANGED
        found.setdefault(why, []).append("/".join(where))
    return (reason(why, tuple(found[why])) for why in Why if why in found)


READERS = 8
MOST_NEW_DAYS = 366
"""A request for more days without a run is probably a mistake, and each of them lists the sources."""


class Planner:
    """Plans day by day, with the objects that earlier days take and whether one of them changes."""

    def __init__(
        self, settings: Settings, request: BackfillRequest, *, lake: ObjectStore, chain: Chain, after: date
    ) -> None:
        """Days up to `after` are left as they are."""
        self._settings, self._request, self._after = settings, request, after
        self._lake, self._chain = lake, chain
        with ThreadPoolExecutor(READERS) as readers:
            read = readers.map(lambda entry: read_run_manifest(lake, entry.run_id), chain.current.values())
            self._manifests = dict(zip(chain.current, read, strict=True))
        self._known = known_objects(self._manifests)
        self._taken = Taken()
        self._changed: date | None = None

    def plan(self) -> BackfillPlan:
        """The requested days, and those with a reason to run."""
        run = self._list()
        plans = [self._day(day, run) for day in self._days()]
        shown = (each for each in plans if each.reasons or self._request.covers(each.day))
        return BackfillPlan(request=self._request, days=tuple(shown))

    def _days(self) -> list[date]:
        """Days with a run, and requested days without one that are before the newest run."""
        newest = max(self._chain.current, default=date.min)
        last = min(self._request.last, newest)
        count = max((last - self._request.first).days + 1, 0)
        if count > MOST_NEW_DAYS + len(self._chain.current):
            raise UnfitRequest(f"a backfill of {count} days, most of which have no run: request fewer")
        asked = (self._request.first + timedelta(days=number) for number in range(count))
        return sorted({*self._chain.current, *asked})

    def _list(self) -> Listing | None:
        asked = [day for day in self._days() if self._is_listed(day)]
        return list_sources(self._settings, asked[-1], first=asked[0]) if asked else None

    def _is_listed(self, day: date) -> bool:
        return self._request.covers(day) and day > self._after

    def _day(self, day: date, listing: Listing | None) -> DayPlan:
        current = self._manifests.get(day, Manifest(day=day))
        seen = listing.of(day) if listing is not None and self._is_listed(day) else None
        late = late_entries(self._lake, self._chain, day) if seen is not None else ()
        inputs = day_inputs(self._settings, self._request, current, self._taken, seen, late=late)
        now = entries_now(self._settings, inputs, self._known, self._taken)
        replays = replays_of_day(self._lake, self._chain, self._request, current, self._taken)
        reasons = [*object_reasons(current, now, self._known, self._taken)]
        if {each.decision for each in replays} != {each.decision for each in current.replays}:
            reasons.append(reason(Why.REPLAYS))
        reasons = [*self._without_run(day, reasons), *self._circumstances(day, reasons)]
        plan = DayPlan(day=day, run_id=self._run_id(day), reasons=tuple(reasons), missed=len(inputs.missed))
        if plan.changes and plan.run_id:
            check_copies(self._settings, self._lake, plan.run_id, inputs.kept)
        self._taken.add(replace(current, entries=now, replays=replays))
        self._changed = day if plan.changes else self._changed
        return plan

    def _run_id(self, day: date) -> str:
        entry = self._chain.run_of(day)
        return entry.run_id if entry else ""

    def _without_run(self, day: date, reasons: list[Reason]) -> list[Reason]:
        """A day without a run gets one if it has new objects or replays."""
        return [reason(Why.NO_RUN), *reasons] if reasons and not self._run_id(day) else reasons

    def _circumstances(self, day: date, reasons: list[Reason]) -> Iterator[Reason]:
        entry = self._chain.run_of(day)
        if entry is None:
            return
        if self._is_listed(day) and entry.config != self._settings.digest:
            yield reason(Why.CONFIG)
        if entry.state_in != self._chain.state_before(day):
            yield reason(Why.STATE)
        elif self._changed is not None and not reasons:
            yield reason(Why.IF_STATE, day=self._changed)


def plan_backfill(settings: Settings, request: BackfillRequest, *, after: date = date.min) -> BackfillPlan:
    """Which days would run again and why, by the current lake and sources; days up to `after` do not."""
    names = {source.name for source in settings.sources}
    for name in request.sources:
        if name not in names:
            raise UnfitRequest(f"the configuration has no source '{name}', only {', '.join(sorted(names))}")
    lake = open_at_home(settings)
    chain = read_chain(lake)
    check_catalog(settings, lake, chain)
    return Planner(settings, request, lake=lake, chain=chain, after=after).plan()


def next_day(settings: Settings, request: BackfillRequest, *, after: date | None = None) -> date | None:
    """The first day that has to run, None if nothing would change.

    A caller that runs day after day passes the last one as `after`: objects that arrive meanwhile do not
    restart the backfill. A day up to `after` runs again only if the one before it has changed its state.
    """
    plan = plan_backfill(settings, request, after=after or date.min)
    days = (each.day for each in plan.days if each.changes and (after is None or each.day > after))
    return next(days, None)


def run_backfill_day(
    settings: Settings,
    day: date,
    request: BackfillRequest,
    *,
    spark: Spark,
    progress: RunProgress,
    until: Step = Step.REPORT,
) -> RunOutcome:
    """Fixes the inputs of one day again, then runs its steps; final unless `until` is before `admit`."""
    staged = execute_run(
        settings,
        day,
        until=Step.STAGE,
        spark=spark,
        progress=progress,
        more_steps_follow=True,
        backfill=request,
    )
    if until is Step.STAGE:
        return staged
    return execute_run(settings, day, until=until, spark=spark, progress=progress, backfill=request)


def run_backfill(
    settings: Settings,
    request: BackfillRequest,
    *,
    spark: Spark,
    progress: RunProgress,
    until: Step = Step.REPORT,
) -> Iterator[RunOutcome]:
    """Runs day after day until none is left; yields the outcome of each."""
    day = next_day(settings, request)
    while day is not None:
        yield run_backfill_day(settings, day, request, spark=spark, progress=progress, until=until)
        day = next_day(settings, request, after=day)
