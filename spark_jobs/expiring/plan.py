"""Everything that may be removed now, planned as a whole so that it can be reviewed first."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spark_jobs.config.settings import Settings
from spark_jobs.expiring.cutoffs import Cutoffs
from spark_jobs.expiring.folders import removable_files
from spark_jobs.expiring.objects import objects_of, removable_objects, staged_objects, waiting_objects
from spark_jobs.expiring.quarantined import ObjectName, undecided_objects
from spark_jobs.flow import Step
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.iceberg.expiry import TableExpiry
from spark_jobs.storage.layout import LEDGER, step_key
from spark_jobs.storage.manifest import Manifest
from spark_jobs.storage.object_store import ObjectStat, ObjectStore
from spark_jobs.storage.replays import read_decisions
from spark_jobs.storage.run_folder import MANIFEST
from spark_jobs.storage.staged import read_run_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderExpiry:
    """Files of one run to remove; a current run (`speaks`) stays listed."""

    run_id: str
    speaks: bool
    files: tuple[ObjectStat, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What goes from tables, from run folders, and of staged objects."""

    tables: tuple[TableExpiry, ...] = ()
    folders: tuple[FolderExpiry, ...] = ()
    objects: tuple[ObjectStat, ...] = ()

    @property
    def bytes(self) -> int:
        """Of run folders and staged objects; lists of files in tables are small."""
        files = (file for folder in self.folders for file in folder.files)
        return sum(each.size for each in (*files, *self.objects))


@dataclass(frozen=True)
class Lake:
    """The lake's state for planning, read once."""

    store: ObjectStore
    settings: Settings
    chain: Chain
    cutoffs: Cutoffs

    def run_ids(self) -> list[str]:
        """Every run in the ledger."""
        listed = {found.key.removeprefix(LEDGER).removesuffix(".json") for found in self.store.list(LEDGER)}
        return sorted(listed | {entry.run_id for entry in self.chain.entries})

    def speaks(self, run_id: str) -> bool:
        return any(entry.run_id == run_id for entry in self.chain.current.values())

    def asked_for(self, run_id: str) -> set[ObjectName]:
        """Objects that a replay of the run's quarantine would read."""
        if not self.speaks(run_id):
            return set()
        decisions = [each for each in read_decisions(self.store) if each.origin == run_id]
        chosen = {(each.place, offset) for each in decisions for offset in each.offsets or (None,)}
        return undecided_objects(self.store, run_id, chosen)


def plan_folders(lake: Lake, live: Collection[str]) -> Iterator[FolderExpiry]:
    """Files of old runs."""
    for run_id in lake.run_ids():
        if lake.cutoffs.is_old(run_id, lake.cutoffs.runs):
            speaks = lake.speaks(run_id)
            found = removable_files(
                lake.store, run_id, speaks=speaks, asked_for=bool(lake.asked_for(run_id)), live=live
            )
            files = tuple(found)
            if files:
                yield FolderExpiry(run_id=run_id, speaks=speaks, files=files)


def plan_objects(lake: Lake) -> tuple[ObjectStat, ...]:
    """Copies that only old runs have read."""
    if lake.cutoffs.staged is None:
        return ()
    manifests = {run_id: found for run_id in lake.run_ids() if (found := _manifest(lake.store, run_id))}
    is_old = {run_id: lake.cutoffs.is_old(run_id, lake.cutoffs.staged) for run_id in manifests}
    old = {sha for run_id, each in manifests.items() if is_old[run_id] for sha in objects_of(each)}
    young = [run_id for run_id in manifests if not is_old[run_id]]
    needed = {sha for run_id in young for sha in objects_of(manifests[run_id])}
    needed |= staged_objects(lake.store, lake.cutoffs.staged)
    needed |= waiting_objects(lake.store, young) | _undecided(lake)
    needed |= {
        sha for run_id, each in manifests.items() if is_old[run_id] for sha in _asked(lake, run_id, each)
    }
    return tuple(removable_objects(lake.store, old, needed))


def _manifest(store: ObjectStore, run_id: str) -> Manifest | None:
    key = step_key(run_id, Step.STAGE, MANIFEST)
    return read_run_manifest(store, run_id) if store.stat(key) is not None else None


def _asked(lake: Lake, run_id: str, manifest: Manifest) -> set[str]:
    names = lake.asked_for(run_id)
    if not names:
        return set()
    own = {entry.sha256 for entry in manifest.entries if (entry.source, entry.path) in names}
    return own | waiting_objects(lake.store, [run_id]) | {replay.sha256 for replay in manifest.replays}


def _undecided(lake: Lake) -> set[str]:
    """Held and parked batches that the next run inherits."""
    taken = {
        replay.decision
        for entry in lake.chain.current.values()
        for replay in read_run_manifest(lake.store, entry.run_id).replays
    }
    return {each.sha256 for each in read_decisions(lake.store, without=taken)}
