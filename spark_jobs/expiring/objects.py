"""Copies of source objects that no run needs any more."""

from collections.abc import Iterable, Iterator
from datetime import date

from spark_jobs.flow import Step
from spark_jobs.storage.folds import FOLD_TABLE, read_folds
from spark_jobs.storage.gap_file import get_gaps
from spark_jobs.storage.held_file import get_held
from spark_jobs.storage.inherited_rows import get_inherited
from spark_jobs.storage.layout import OBJECTS, STAGING, step_key
from spark_jobs.storage.manifest import Manifest, read_manifest
from spark_jobs.storage.object_store import ObjectStat, ObjectStore
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.state_file import get_state
from spark_jobs.storage.states import STATE_STEPS, read_states
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import STATES, FoldKind


def objects_of(manifest: Manifest) -> set[str]:
    """What a run has copied to read it, by content: objects of sources, and batches that it replays.

    What it only inherits is kept as long as the run that took it needs it.
    """
    copied = {entry.sha256 for entry in manifest.entries if not entry.referenced and not entry.inherited}
    return copied | {replay.sha256 for replay in manifest.replays}


def staged_objects(lake: ObjectStore, after: date) -> set[str]:
    """Objects of later runs whose inputs are fixed but which may not have run yet."""
    found = [each.key for each in lake.list(STAGING) if "/manifest-" in each.key]
    keys = [key for key in found if date.fromisoformat(key.removeprefix(STAGING).partition("/")[0]) > after]
    manifests = (read_manifest(lake.read(key), source=lake.url_of(key)) for key in keys)
    return {sha256 for manifest in manifests for sha256 in objects_of(manifest)}


def waiting_objects(lake: ObjectStore, run_ids: Iterable[str]) -> set[str]:
    """Objects with held or parked batches of these runs."""
    digests = {digest for run_id in run_ids for digest in inherited_by(lake, run_id)}
    return {
        each.sha256
        for digest in digests
        for each in get_inherited(lake, digest).objects
        if not each.referenced
    }


def removable_objects(lake: ObjectStore, old: set[str], needed: set[str]) -> Iterator[ObjectStat]:
    """Copies made by old runs that are not needed; copies of unknown origin are kept."""
    for found in lake.list(OBJECTS):
        if found.key.rpartition("/")[2] in old - needed:
            yield found


def inherited_by(lake: ObjectStore, run_id: str) -> Iterator[str]:
    """Names of files of inherited rows that the run wrote or read."""
    for step in STATE_STEPS:
        if lake.stat(step_key(run_id, step, STATES.file)) is not None:
            for digest in set(read_states(lake, run_id, step).values()):
                state = get_state(lake, digest, with_producers=False)
                yield from (file.digest for file in get_gaps(lake, state.gaps).held)
                if state.parked:
                    yield state.parked
    if lake.stat(step_key(run_id, Step.RESOLVE, FOLD_TABLE)) is not None:
        for (kind, _), digest in read_folds(lake, run_id).items():
            if kind is FoldKind.HELD_STATE:
                yield from get_held(lake, digest).held
    key = step_key(run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file)
    if lake.stat(key) is not None:
        for held in read_table(lake, key).column("held").to_pylist():
            yield from held or ()
