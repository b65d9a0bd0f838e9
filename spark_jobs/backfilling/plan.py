"""Which days a backfill would change, and why; only lists and compares, writes nothing.

Days are examined in order, since an object that an earlier day takes is not available to a later one.
Whether a later day starts from another state shows only when the earlier one has run; until then it is a
condition.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta

from spark_jobs.backfilling.compare import entries_now, known_objects, object_reasons
from spark_jobs.backfilling.copies import check_copies
from spark_jobs.backfilling.inputs import day_inputs, late_entries
from spark_jobs.backfilling.outlook import BackfillPlan, DayPlan, Reason, Why, reason
from spark_jobs.backfilling.replays import replays_of_day
from spark_jobs.backfilling.request import BackfillRequest, UnfitRequest
from spark_jobs.config.settings import Settings
from spark_jobs.sources.listing import Listing, list_sources
from spark_jobs.sources.taken import Taken
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.manifest import Manifest
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.staged import read_run_manifest

READERS = 8
MOST_NEW_DAYS = 366
"""More days without a run than this are hardly meant, and each is looked for at the sources."""


class Planner:
    """Goes from day to day, and knows what earlier ones take and whether one of them changes."""

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
        """Days with a run, and days without one that are asked for and are before some that have."""
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
        standing = self._manifests.get(day, Manifest(day=day))
        seen = listing.of(day) if listing is not None and self._is_listed(day) else None
        late = late_entries(self._lake, self._chain, day) if seen is not None else ()
        inputs = day_inputs(self._settings, self._request, standing, self._taken, seen, late=late)
        now = entries_now(self._settings, inputs, self._known, self._taken)
        replays = replays_of_day(self._lake, self._chain, self._request, standing, self._taken)
        reasons = [*object_reasons(standing, now, self._known, self._taken)]
        if {each.decision for each in replays} != {each.decision for each in standing.replays}:
            reasons.append(reason(Why.REPLAYS))
        reasons = [*self._without_run(day, reasons), *self._circumstances(day, reasons)]
        plan = DayPlan(day=day, run_id=self._run_id(day), reasons=tuple(reasons), missed=len(inputs.missed))
        if plan.changes and plan.run_id:
            check_copies(self._lake, plan.run_id, inputs.kept)
        self._taken.add(replace(standing, entries=now, replays=replays))
        self._changed = day if plan.changes else self._changed
        return plan

    def _run_id(self, day: date) -> str:
        entry = self._chain.run_of(day)
        return entry.run_id if entry else ""

    def _without_run(self, day: date, reasons: list[Reason]) -> list[Reason]:
        """A day without a run gets one if it has something to take."""
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
