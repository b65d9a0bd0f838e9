"""Idempotent commits: bring a table to what a run publishes, from any state.

Each commit is one snapshot with the run's tag on it, or nothing. Whether a run's files are in a table is read
from the table itself, so it does not matter where an earlier attempt ended, nor whether its answer arrived.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import StagedTable, Table, Transaction
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.utils.datetime import date_to_days

from spark_jobs.storage.damage import RESTORE
from spark_jobs.storage.errors import Damaged, PublishedDiffers, PublishFailed
from spark_jobs.storage.iceberg.dated import dated_files
from spark_jobs.storage.iceberg.evolution import TableChange, begin_change
from spark_jobs.storage.iceberg.footers import footers_of
from spark_jobs.storage.iceberg.overwriting import overwriting
from spark_jobs.storage.iceberg.target import RunStamp, TableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What has to be added to a table, by address, and what removed, until it holds what is wanted."""

    added: tuple[str, ...] = ()
    removed: tuple[IcebergFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A table that holds what the run wants; `snapshot_id` is the one that its tag names."""

    table: tuple[str, str]
    snapshot_id: int
    rows: int
    change: Change


def publish_table(catalog: Catalog, target: TableTarget, stamp: RunStamp) -> Published:
    """Brings the table to hold exactly the target's files of the run's date, tagged by the run id.

    Raises `PublishFailed` if the catalog did not do it, which can be tried again.
    """
    return publish_into(catalog, target, find_table(catalog, target.name), stamp)


def publish_into(catalog: Catalog, target: TableTarget, table: Table | None, stamp: RunStamp) -> Published:
    """The same for a table that was just loaded; None makes a new one."""
    change = change_to(table, target, stamp.day)
    if table is None or change or stamp.run_id not in table.refs():
        table = _commit(catalog, table, target, stamp, change)
    check_published(table, target, stamp)
    snapshot_id = table.refs()[stamp.run_id].snapshot_id
    return Published(table=target.name, snapshot_id=snapshot_id, rows=target.rows, change=change)


def find_table(catalog: Catalog, name: tuple[str, ...]) -> Table | None:
    """The table as the catalog has it now, if it has one."""
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None
    except Exception as error:
        raise PublishFailed(f"{'.'.join(name)}: the catalog does not show the table: {error}") from error


def files_of(table: Table, day: date, snapshot_id: int | None = None) -> dict[str, IcebergFile]:
    """The table's files of a run date by address, as of a snapshot or now."""
    try:
        return {file.file_path: file for file in dated_files(table, day, snapshot_id)}
    except Exception as error:  # Iceberg's reader of Avro raises whatever the damaged bytes lead it to
        name = ".".join(table.name())
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise PublishFailed(f"{name}: its manifests cannot be read now: {error}") from error
        raise Damaged(
            f"{name}: its manifests in {table.location()}/metadata are damaged or gone "
            f"({type(error).__name__}: {error}); {RESTORE}"
        ) from error


def change_to(table: Table | None, target: TableTarget, day: date) -> Change:
    """From what the table holds of `day` to what it should; one that is not there yet holds nothing."""
    standing = files_of(table, day) if table is not None else {}
    wanted = {file.location for file in target.files}
    return Change(
        added=tuple(sorted(wanted - standing.keys())),
        removed=tuple(standing[path] for path in sorted(standing.keys() - wanted)),
    )


def check_published(table: Table, target: TableTarget, stamp: RunStamp) -> None:
    """Reads the table back as the run's tag shows it."""
    ref = table.refs().get(stamp.run_id)
    found = files_of(table, stamp.day, ref.snapshot_id) if ref else {}
    rows = {path: file.record_count for path, file in found.items()}
    if ref is None or rows != {file.location: file.rows for file in target.files}:
        raise PublishedDiffers(
            f"{'.'.join(target.name)}: expected {len(target.files)} files with {target.rows} rows of "
            f"{stamp.day} under the tag {stamp.run_id}, found {len(rows)} with {sum(rows.values())}"
        )


def _commit(
    catalog: Catalog, table: Table | None, target: TableTarget, stamp: RunStamp, change: Change
) -> Table:
    """The table after the change, as the catalog answered; where its answer is lost, as it shows it now."""
    summary = {**stamp.summary(), **target.summary()}
    try:
        begun = begin_change(catalog, table, target)
        added = _described(begun, change.added, stamp.day)
        snapshot_id = _add_snapshot(begun.transaction, added, change.removed, summary)
        with ManageSnapshots(begun.transaction) as refs:
            refs.create_tag(snapshot_id, stamp.run_id)
        made = begun.transaction.commit_transaction()
        return catalog.load_table(target.name) if isinstance(made, StagedTable) else made
    except PublishedDiffers:
        raise
    except Exception as error:  # whatever a catalog raises: what counts is what the table says afterwards
        now = find_table(catalog, target.name)
        if now is None or stamp.run_id not in now.refs() or change_to(now, target, stamp.day):
            name = ".".join(target.name)
            raise PublishFailed(f"{name}: run {stamp.run_id} was not committed: {error}") from error
        return now


def _described(begun: TableChange, paths: Sequence[str], day: date) -> tuple[IcebergFile, ...]:
    """The files as manifests describe them; their statistics must say that all of them is of `day`.

    Where they say nothing, Iceberg takes the date for null, and readers of the date would miss the rows.
    """
    if not paths:
        return ()
    files = tuple(footers_of(begun.io, begun.transaction.table_metadata).describe_all(paths))
    for file in files:
        if file.partition[0] != date_to_days(day):
            raise PublishedDiffers(
                f"{file.file_path}: its statistics do not prove that its rows are of {day}"
            )
    return files


def _add_snapshot(
    transaction: Transaction,
    added: Sequence[IcebergFile],
    removed: Sequence[IcebergFile],
    summary: dict[str, str],
) -> int:
    """One snapshot: an append where nothing goes, so that readers of changes can follow it."""
    update = transaction.update_snapshot(snapshot_properties=summary)
    with overwriting(update) if removed else update.merge_append() as snapshot:
        for file in removed:
            snapshot.delete_data_file(file)
        for file in added:
            snapshot.append_data_file(file)
        return snapshot.snapshot_id
