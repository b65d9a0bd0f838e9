"""Expiry of a table's old tags and snapshots, and of the manifests that only they reference.

Manifests to delete are recorded in the lake before the commit that removes their last reference, so that an
interrupted expiry can continue.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import PublishFailed
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.iceberg.target import ROLLBACK_PROPERTY, RUN_ID_PROPERTY, TableName
from spark_jobs.lake.layout import EXPIRY, expiry_key
from spark_jobs.lake.object_store import ObjectStore

IsOld = Callable[[str], bool]
"""Whether the tag and the snapshots of this run may be removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExpiry:
    """What to remove from one table: `files` are manifests and manifest lists that only `snapshots` use."""

    name: tuple[str, ...]
    tags: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags or self.snapshots)


def plan_table(table: Table, is_old: IsOld) -> TableExpiry:
    """Tags of old runs, and old snapshots that no other tag or branch names. Tags of users are kept."""
    refs = table.refs()
    runs = {run_of(snapshot) for snapshot in table.snapshots()}
    tags = {
        name
        for name, ref in refs.items()
        if ref.snapshot_ref_type is SnapshotRefType.TAG and name in runs and is_old(name)
    }
    needed = {ref.snapshot_id for name, ref in refs.items() if name not in tags}
    old = [each for each in table.snapshots() if each.snapshot_id not in needed and _is_old(each, is_old)]
    removed = {each.snapshot_id for each in old}
    kept = [each for each in table.snapshots() if each.snapshot_id not in removed]
    files = set(_lists_of(table, old)) - set(_lists_of(table, kept))
    return TableExpiry(
        name=table.name(),
        tags=tuple(sorted(tags)),
        snapshots=tuple(sorted(removed)),
        files=tuple(sorted(files)),
    )


def run_of(snapshot: Snapshot) -> str:
    """The run that committed the snapshot; empty if another application did."""
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    return properties.get(RUN_ID_PROPERTY) or properties.get(ROLLBACK_PROPERTY, "")


def live_files(table: Table, without: Iterable[int] = ()) -> set[str]:
    """Data files that some snapshot references, except the snapshots in `without`."""
    removed = set(without)
    kept = [each for each in table.snapshots() if each.snapshot_id not in removed]
    manifests = {each.manifest_path: each for snapshot in kept for each in snapshot.manifests(table.io)}
    return {path for manifest in manifests.values() for path in _data_files(table, manifest)}


def current_files(table: Table) -> set[str]:
    """Data files of the current snapshot."""
    snapshot = table.metadata.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    return {path for manifest in manifests for path in _data_files(table, manifest)}


def named_files(table: Table) -> Iterator[DataFile]:
    """Every data file that some snapshot references, each once, as its manifest entry."""
    manifests = {
        each.manifest_path: each for snapshot in table.snapshots() for each in snapshot.manifests(table.io)
    }
    seen = set[str]()
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.file_path not in seen:
                seen.add(entry.data_file.file_path)
                yield entry.data_file


def expire_table(catalog: Catalog, plan: TableExpiry) -> None:
    """Removes tags and snapshots in one commit; `delete_files` removes their files afterwards.

    Raises `PublishFailed`, which is transient, if the catalog did not commit.
    """
    table = find_table(catalog, plan.name)
    if table is None:
        return
    try:
        with table.transaction() as transaction:
            with ManageSnapshots(transaction) as refs:
                for tag in plan.tags:
                    refs.remove_tag(tag)
            if plan.snapshots:
                with ExpireSnapshots(transaction) as expiry:
                    expiry.by_ids(list(plan.snapshots))
    except Exception as error:  # a catalog can raise any exception: the next attempt reads the table again
        raise PublishFailed(f"{'.'.join(plan.name)}: its old snapshots were not removed: {error}") from error


def delete_files(table: Table, files: Iterable[str]) -> int:
    """Removes those of `files` that no snapshot references any more; returns how many."""
    named = set(_lists_of(table, table.snapshots()))
    unnamed = sorted(set(files) - named)
    for file in unnamed:
        with suppress(FileNotFoundError):  # an earlier attempt deleted it
            table.io.delete(file)
    return len(unnamed)


def tables_of(catalog: Catalog, settings: Settings) -> Iterator[Table]:
    """All tables of topics, then Onceover's own."""
    for namespace in (settings.catalog.topics, settings.catalog.namespace):
        for name in sorted(catalog.list_tables(namespace)):
            table = find_table(catalog, name)
            if table is not None:
                yield table


def _is_old(snapshot: Snapshot, is_old: IsOld) -> bool:
    run_id = run_of(snapshot)
    return bool(run_id) and is_old(run_id)


def _lists_of(table: Table, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """The manifest list and the manifests of each snapshot."""
    for snapshot in snapshots:
        yield snapshot.manifest_list
        yield from (manifest.manifest_path for manifest in snapshot.manifests(table.io))


def _data_files(table: Table, manifest: ManifestFile) -> Iterator[str]:
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        yield entry.data_file.file_path


def put_unnamed(store: ObjectStore, plan: TableExpiry) -> None:
    """Records the plan's files, in addition to those of earlier attempts."""
    files = {*plan.files, *read_unnamed(store).get(plan.name, ())}
    store.put(expiry_key(".".join(plan.name)), canonical_json({"name": plan.name, "files": sorted(files)}))


def read_unnamed(store: ObjectStore) -> dict[TableName, tuple[str, ...]]:
    """The recorded files by table."""
    found = [json.loads(store.read(each.key)) for each in store.list(EXPIRY)]
    return {tuple(each["name"]): tuple(each["files"]) for each in found}


def prune_unreferenced(store: ObjectStore, name: TableName) -> None:
    """Removes the record of a table's files, after they were deleted."""
    store.delete(expiry_key(".".join(name)))
