"""Expiry: removes old data that the lake does not need any more, according to the retention settings.

Ages are counted from the newest final run; no clock is read. Everything is planned first, so that the plan
can be reviewed. An interrupted expiry can be repeated.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain as chain_of
from typing import Any

from spark_jobs.config.settings import RetentionSettings, Settings
from spark_jobs.flow import Step
from spark_jobs.lake.accepted_log import LOG
from spark_jobs.lake.chain import Chain, read_chain
from spark_jobs.lake.errors import OutOfTurn
from spark_jobs.lake.folds import get_held, read_folds
from spark_jobs.lake.gap_file import get_gaps
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.iceberg.expiry import (
    TableExpiry,
    delete_files,
    expire_table,
    live_files,
    plan_table,
    prune_unreferenced,
    put_unnamed,
    read_unnamed,
    tables_of,
)
from spark_jobs.lake.iceberg.holdings import check_holdings
from spark_jobs.lake.identity import locked_lake, open_at_home
from spark_jobs.lake.inherited_rows import InheritedObject, get_inherited
from spark_jobs.lake.layout import (
    LEDGER,
    OBJECTS,
    SOURCES,
    STAGING,
    fetched_key,
    object_key,
    run_key,
    step_key,
)
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.manifest import Manifest, ManifestEntry, SourcePath, read_manifest, read_run_manifest
from spark_jobs.lake.object_store import ObjectStat, ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.replays import read_decisions
from spark_jobs.lake.run_folder import DONE, EXPIRED, INPUTS, MANIFEST, MESSAGES, RunFolder, read_inputs
from spark_jobs.lake.staged_headers import abandoned_headers
from spark_jobs.lake.states import STATE_STEPS, get_state, read_states
from spark_jobs.lake.table_listing import read_listing
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, PLANNED_SEGMENTS, REACH
from spark_jobs.tables.deduplicate import DUPLICATE_COUNTS, DUPLICATE_FACTS, ID_INDEX
from spark_jobs.tables.index import INDEX_FILES
from spark_jobs.tables.materialise import QUARANTINE, TABLE_FILES, QuarantineKind
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import FOLDS, STATES, FoldKind

DATE_LENGTH = len("2024-05-01")
NEWEST_KEPT = 2
"""The newest run provides the state of the next one, and the one before it does after a rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Last dates that may be removed, None to keep all; runs in `needed` are kept at any date."""

    runs: date | None = None
    snapshots: date | None = None
    staged: date | None = None
    needed: frozenset[str] = frozenset()

    def is_old(self, run_id: str, last: date | None) -> bool:
        """Whether the run's date is `last` or before, and it is not needed."""
        return last is not None and day_of(run_id) <= last and run_id not in self.needed


def day_of(run_id: str) -> date:
    """The date of a run: its run id begins with it."""
    return date.fromisoformat(run_id[:DATE_LENGTH])


def cutoffs_of(chain: Chain, retention: RetentionSettings) -> Cutoffs:
    """Runs that the chain needs are kept; a lake without final runs keeps everything."""
    newest = list(chain.current.values())[-NEWEST_KEPT:]
    if not newest:
        return Cutoffs()
    holders = (chain.run_with_state(entry.state_out) for entry in newest)
    needed = {entry.run_id for entry in (*newest, *holders) if entry is not None}
    days = (retention.runs_days, retention.snapshots_days, retention.staged_days)
    runs, snapshots, staged = (
        newest[-1].day - timedelta(days=each) if each is not None else None for each in days
    )
    return Cutoffs(runs=runs, snapshots=snapshots, staged=staged, needed=frozenset(needed))


BULK = (Step.INDEX, Step.REBUILD, Step.ADMIT, Step.RESOLVE, Step.MATERIALISE, Step.DEDUPLICATE)
"""Steps whose tables grow with batches and records; what the others write is small and stays readable."""
VERDICTS = (Step.REBUILD, Step.ADMIT, Step.RESOLVE)
"""Steps whose tables a replay reads."""
KEPT_NAMES = frozenset(
    {
        DONE,
        MESSAGES,
        INDEX_FILES.file,
        STATES.file,
        ADMITTED_PARTITIONS.file,
        PLANNED_SEGMENTS.file,
        GAPS.file,
        REACH.file,
        RESOLVED_PARTITIONS.file,
        FOLDS.file,
        TABLE_FILES.file,
        ID_INDEX.file,
        DUPLICATE_FACTS.file,
        DUPLICATE_COUNTS.file,
    }
)
KEPT_BELOW = (f"{Step.ADMIT}/{LOG}", f"{Step.MATERIALISE}/{LOG}")
"""The accepted log of captured partitions: Onceover is their broker."""


def removable_files(
    lake: ObjectStore, run_id: str, *, is_current: bool, is_replayable: bool, live: Collection[str]
) -> Iterator[ObjectStat]:
    """Files of an old run; `live` ones are in tables.

    A run that `is_current` keeps its small files, and its verdicts if its quarantine `is_replayable`.
    """
    prefix = run_key(run_id) + "/"
    for found in lake.list(run_key(run_id)):
        path = found.key.removeprefix(prefix)
        is_kept = _is_kept(path, is_replayable=is_replayable) if is_current else _names_inputs(path)
        if not is_kept and lake.url_of(found.key) not in live:
            yield found


def _is_kept(path: str, *, is_replayable: bool) -> bool:
    step, _, below = path.partition("/")
    return (
        step not in BULK
        or below.rpartition("/")[2] in KEPT_NAMES
        or path.startswith(KEPT_BELOW)
        or (is_replayable and step in VERDICTS)
    )


def _names_inputs(path: str) -> bool:
    """Whether the file names the objects that the run had copied, so that they can be removed later."""
    return path in {INPUTS, EXPIRED, f"{Step.STAGE}/{MANIFEST}"}


def key_of(staged: ManifestEntry | InheritedObject) -> str:
    """Where the lake has the bytes of a staged object: its copy, or what was fetched for a referenced one.

    The lake has nothing at that key if a referenced object is at a source outside.
    """
    return fetched_key(staged.source, staged.path) if staged.referenced else object_key(staged.sha256)


def objects_of(manifest: Manifest) -> set[str]:
    """Keys of what a run reads: objects of sources, and batches that it replays.

    An object that it inherits is kept as long as the run that took it needs it.
    """
    staged = {key_of(entry) for entry in manifest.entries if not entry.inherited}
    return staged | {object_key(replay.sha256) for replay in manifest.replays}


def staged_objects(lake: ObjectStore, after: date) -> set[str]:
    """Objects of later runs whose inputs are fixed but which may not have run yet."""
    found = [each.key for each in lake.list(STAGING) if "/manifest-" in each.key]
    keys = [key for key in found if date.fromisoformat(key.removeprefix(STAGING).partition("/")[0]) > after]
    manifests = (read_manifest(lake.read(key), source=lake.url_of(key)) for key in keys)
    return {key for manifest in manifests for key in objects_of(manifest)}


def held_objects(lake: ObjectStore, run_ids: Iterable[str]) -> set[str]:
    """Objects with held or parked batches of these runs."""
    digests = {digest for run_id in run_ids for digest in inherited_by(lake, run_id)}
    return {key_of(each) for digest in digests for each in get_inherited(lake, digest).objects}


def removable_objects(lake: ObjectStore, old: set[str], needed: set[str]) -> Iterator[ObjectStat]:
    """Copies and fetched segments that only old runs have read; those of unknown origin are kept.

    The small files beside segments are kept: they have what the next fetch continues from.
    """
    removable = old - needed
    segments = (found for found in lake.list(SOURCES) if found.key.endswith(".log"))
    yield from (found for found in chain_of(lake.list(OBJECTS), segments) if found.key in removable)


def inherited_by(lake: ObjectStore, run_id: str) -> Iterator[str]:
    """Digests of the files of inherited rows that the run wrote or read."""
    for step in STATE_STEPS:
        if lake.stat(step_key(run_id, step, STATES.file)) is not None:
            for digest in set(read_states(lake, run_id, step).values()):
                state = get_state(lake, digest, with_producers=False)
                yield from (file.digest for file in get_gaps(lake, state.gaps).held)
                if state.parked:
                    yield state.parked
    if lake.stat(step_key(run_id, Step.RESOLVE, FOLDS.file)) is not None:
        for (kind, _), digest in read_folds(lake, run_id).items():
            if kind is FoldKind.HELD_STATE:
                yield from get_held(lake, digest).held
    key = step_key(run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file)
    if lake.stat(key) is not None:
        for held in read_table(lake, key).column("held").to_pylist():
            yield from held or ()


COLUMNS = ["source", "path", "position", "kind", "offset", "bytes"]

ChosenParts = Collection[tuple[tuple[str, str, int], int | None]]
"""Batches by place, or records with their offset, that already have a decision."""


def undecided_objects(lake: ObjectStore, run_id: str, chosen: ChosenParts) -> set[SourcePath]:
    """Source and path of objects that a replay would read, since the quarantine does not hold the bytes."""
    folder = RunFolder(lake, read_inputs(lake, run_id))
    found: set[SourcePath] = set()
    for entry in read_listing(folder, Step.MATERIALISE):
        if entry.table == QUARANTINE.name and entry.topic is None and entry.file is not None:
            for part in iter_rows(lake, folder.key(Step.MATERIALISE, entry.file), columns=COLUMNS):
                found |= {(row["source"], row["path"]) for row in part.to_pylist() if _is_open(row, chosen)}
    return found


def _is_open(row: dict[str, Any], chosen: ChosenParts) -> bool:
    is_unfit = row["kind"] == QuarantineKind.UNFIT
    was_taken = row["kind"] == QuarantineKind.CORRUPT and row["offset"] is not None
    is_absent = row["kind"] != QuarantineKind.HELD and row["bytes"] is None
    place = row["source"], row["path"], row["position"]
    return (is_unfit or was_taken or is_absent) and (place, row["offset"] if is_unfit else None) not in chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderExpiry:
    """Files of one run to remove; a run that `is_current` stays listed."""

    run_id: str
    is_current: bool
    files: tuple[ObjectStat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What will be removed from tables, run folders and staged objects."""

    tables: tuple[TableExpiry, ...] = ()
    folders: tuple[FolderExpiry, ...] = ()
    objects: tuple[ObjectStat, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of run folders and staged objects; manifests of tables are small."""
        files = (file for folder in self.folders for file in folder.files)
        return sum(each.size for each in (*files, *self.objects))


@dataclass(frozen=True)
class PlannedLake:
    """The lake's state for planning, read once."""

    store: ObjectStore
    settings: Settings
    chain: Chain
    cutoffs: Cutoffs

    def run_ids(self) -> list[str]:
        """Every run in the ledger."""
        listed = {found.key.removeprefix(LEDGER).removesuffix(".json") for found in self.store.list(LEDGER)}
        return sorted(listed | {entry.run_id for entry in self.chain.entries})

    def is_current(self, run_id: str) -> bool:
        return any(entry.run_id == run_id for entry in self.chain.current.values())

    def replayable_objects(self, run_id: str) -> set[SourcePath]:
        """Objects that a replay of the run's quarantine would read."""
        if not self.is_current(run_id):
            return set()
        decisions = [each for each in read_decisions(self.store) if each.origin == run_id]
        chosen = {(each.place, offset) for each in decisions for offset in each.offsets or (None,)}
        return undecided_objects(self.store, run_id, chosen)


def plan_folders(lake: PlannedLake, live: Collection[str]) -> Iterator[FolderExpiry]:
    """Files of old runs."""
    for run_id in lake.run_ids():
        if lake.cutoffs.is_old(run_id, lake.cutoffs.runs):
            is_current = lake.is_current(run_id)
            found = removable_files(
                lake.store,
                run_id,
                is_current=is_current,
                is_replayable=bool(lake.replayable_objects(run_id)),
                live=live,
            )
            files = tuple(found)
            if files:
                yield FolderExpiry(run_id=run_id, is_current=is_current, files=files)


def plan_objects(lake: PlannedLake) -> tuple[ObjectStat, ...]:
    """Copies and fetched segments that only old runs have read, and headers of runs that were given up."""
    if lake.cutoffs.staged is None:
        return ()
    manifests = {run_id: found for run_id in lake.run_ids() if (found := _manifest(lake.store, run_id))}
    is_old = {run_id: lake.cutoffs.is_old(run_id, lake.cutoffs.staged) for run_id in manifests}
    old = {key for run_id, each in manifests.items() if is_old[run_id] for key in objects_of(each)}
    young = [run_id for run_id in manifests if not is_old[run_id]]
    needed = {key for run_id in young for key in objects_of(manifests[run_id])}
    needed |= staged_objects(lake.store, lake.cutoffs.staged)
    needed |= held_objects(lake.store, young) | _undecided(lake)
    needed |= {
        key for run_id, each in manifests.items() if is_old[run_id] for key in _replayable(lake, run_id, each)
    }
    headers = abandoned_headers(lake.store, lake.cutoffs.staged)
    return (*removable_objects(lake.store, old, needed), *headers)


def _manifest(store: ObjectStore, run_id: str) -> Manifest | None:
    key = step_key(run_id, Step.STAGE, MANIFEST)
    return read_run_manifest(store, run_id) if store.stat(key) is not None else None


def _replayable(lake: PlannedLake, run_id: str, manifest: Manifest) -> set[str]:
    names = lake.replayable_objects(run_id)
    if not names:
        return set()
    own = {key_of(entry) for entry in manifest.entries if (entry.source, entry.path) in names}
    replayed = {object_key(replay.sha256) for replay in manifest.replays}
    return own | held_objects(lake.store, [run_id]) | replayed


def _undecided(lake: PlannedLake) -> set[str]:
    """Copies of batches whose replay is decided and that no run has taken yet."""
    taken = {
        replay.decision
        for entry in lake.chain.current.values()
        for replay in read_run_manifest(lake.store, entry.run_id).replays
    }
    return {object_key(each.sha256) for each in read_decisions(lake.store, without=taken)}


MOST_DAYS_AHEAD = 2
"""How far a run's date may be after the day on which it was started; time zones explain one day."""


def plan_expiry(settings: Settings) -> ExpiryPlan:
    """What would be removed now; nothing is changed. Raises `OutOfTurn` after a run of a future date."""
    store = open_at_home(settings)
    chain = read_chain(store)
    _check_newest(store, chain)
    cutoffs = cutoffs_of(chain, settings.retention)
    with open_catalog(settings) as catalog:
        check_holdings(catalog, settings, store, chain)  # a file of a lost table would look unneeded
        tables = list(tables_of(catalog, settings))
        plans = [
            plan_table(table, lambda run_id: cutoffs.is_old(run_id, cutoffs.snapshots)) for table in tables
        ]
        live = {
            path
            for table, plan in zip(tables, plans, strict=True)
            for path in live_files(table, plan.snapshots)
        }
    lake = PlannedLake(store, settings, chain, cutoffs)
    return ExpiryPlan(
        tables=tuple(plan for plan in plans if plan),
        folders=tuple(plan_folders(lake, live)),
        objects=plan_objects(lake),
    )


def _check_newest(store: ObjectStore, chain: Chain) -> None:
    """Raises `OutOfTurn` if the newest run has a future date: a mistyped one would make all others old."""
    newest = list(chain.current.values())[-1:]
    for entry in newest:
        line = Ledger(store).read(entry.run_id)
        started = date.fromisoformat(line.started_at[:DATE_LENGTH]) if line is not None else entry.day
        if entry.day - started > timedelta(days=MOST_DAYS_AHEAD):
            raise OutOfTurn(
                f"run {entry.run_id} was started on {started}, for a date in its future. Retention counts "
                "from the newest run, so all earlier ones would count as old; nothing was removed. If the "
                f"date was a mistake: onceover rollback {entry.run_id}"
            )


def expire(settings: Settings) -> ExpiryPlan:
    """Removes what the plan lists: first from the tables, then copies of objects, then run folders.

    An interrupted expiry leaves no unreferenced files: the next one continues.
    """
    with locked_lake(settings, purpose="expiry") as (store, lock):
        plan = plan_expiry(settings)
        _expire_tables(settings, store, plan)
        lock.check()
        for found in plan.objects:
            store.delete(found.key)
        for folder in plan.folders:
            if folder.is_current:
                RunFolder(store, read_inputs(store, folder.run_id)).expire()
            for file in folder.files:
                store.delete(file.key)
        return plan


def _expire_tables(settings: Settings, store: ObjectStore, plan: ExpiryPlan) -> None:
    """Files that only expiring snapshots reference are recorded first: afterwards nothing references them."""
    with open_catalog(settings) as catalog:
        for each in plan.tables:
            put_unnamed(store, each)
            expire_table(catalog, each)
        for name, files in read_unnamed(store).items():
            table = find_table(catalog, name)
            if table is not None:
                delete_files(table, files)
            prune_unreferenced(store, name)
