"""Idempotent commits: bring a table to what a run publishes, from any state.

Each commit is one snapshot with the run's tag, or nothing. Whether a run's files are in a table is read from
the table itself, so a commit can be repeated after an interruption or a lost response.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.literals import DateLiteral
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update.snapshot import ManageSnapshots, UpdateSnapshot, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.datetime import date_to_days

from spark_jobs.lake.errors import RESTORE, Damaged, PublishedDiffers, PublishFailed
from spark_jobs.lake.iceberg.schema import TableChange, begin_change
from spark_jobs.lake.iceberg.target import ROLLBACK_PROPERTY, RunStamp, TableName, TableTarget
from spark_jobs.tables.contract import RUN_DATE
from spark_jobs.tables.publish import RUNS


def dated_files(table: Table, day: date, snapshot_id: int | None = None) -> Iterator[DataFile]:
    """The table's files of a run date, as of a snapshot or now."""
    if is_divided_by_date(table):
        return _named(table, date_to_days(day), snapshot_id)
    return scanned_files(table, day, snapshot_id)


def is_divided_by_date(table: Table) -> bool:
    """Whether all partition specs of the table, also earlier ones, partition by run date only."""
    divisions = [spec.fields for spec in table.specs().values()]
    return all(
        [field.name for field in fields] == [RUN_DATE.name]
        and isinstance(fields[0].transform, IdentityTransform)
        for fields in divisions
    )


def scanned_files(table: Table, day: date, snapshot_id: int | None = None) -> Iterator[DataFile]:
    """The same for a table with any partition specs."""
    of_date = EqualTo(term=Reference(RUN_DATE.name), value=DateLiteral(date_to_days(day)))
    scan = table.scan(row_filter=of_date, snapshot_id=snapshot_id)
    return (task.file for task in scan.plan_files())


def _named(table: Table, days: int, snapshot_id: int | None) -> Iterator[DataFile]:
    metadata = table.metadata
    snapshot = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        if manifest.content is ManifestContent.DATA and _may_name(manifest, days):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            yield from (each.data_file for each in entries if each.data_file.partition[0] == days)


def _may_name(manifest: ManifestFile, days: int) -> bool:
    """False if the manifest's bounds exclude the date."""
    bounds = manifest.partitions[0] if manifest.partitions else None
    if bounds is None or bounds.lower_bound is None or bounds.upper_bound is None:
        return True
    return _days(bounds.lower_bound) <= days <= _days(bounds.upper_bound)


def _days(bound: bytes) -> int:
    """Iceberg's date: days since 1970 in four bytes, little-endian."""
    return int.from_bytes(bound, "little", signed=True)


THREADS = 8
"""Footers that are read concurrently: reading one from S3 is mostly latency."""


@dataclass(frozen=True, slots=True)
class Footers:
    """Reads the footers of files for one table; threads may share it."""

    io: FileIO
    table: TableMetadata
    plan: Any
    mapping: dict[str, int]
    known: list[pa.Schema] = field(default_factory=list)
    """Schemas of files that pyiceberg itself has found to fit the table."""

    def describe_all(self, paths: Sequence[str]) -> Iterator[DataFile]:
        """A file's entry for each path, in order."""
        if len(paths) == 1:  # a thread pool would cost more than the file
            yield self.describe(paths[0])
            return
        with ThreadPoolExecutor(THREADS) as threads:
            yield from threads.map(self.describe, paths)

    def describe(self, path: str) -> DataFile:
        """The file's entry, or the error that pyiceberg raises for a file that does not fit."""
        file = self.io.new_input(path)
        with file.open() as stream:
            footer = pq.read_metadata(cast("IO[bytes]", stream))
        schema = footer.schema.to_arrow_schema()
        if not any(schema.equals(each) for each in self.known):
            _check_pyarrow_schema_compatible(
                self.table.schema(), schema, format_version=self.table.format_version
            )
            self.known.append(schema)
        return self._entry(path, len(file), footer)

    def _entry(self, path: str, size: int, footer: pq.FileMetaData) -> DataFile:
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=self.plan, parquet_column_mapping=self.mapping
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=statistics.partition(self.table.spec(), self.table.schema()),
            file_size_in_bytes=size,
            sort_order_id=None,
            spec_id=self.table.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def footers_of(io: FileIO, table: TableMetadata) -> Footers:
    """The reader of footers for a table as it is now."""
    schema = table.schema()
    plan = compute_statistics_plan(schema, table.properties)
    return Footers(io, table, plan, parquet_path_to_id_mapping(schema))


class _ThreadSafeOverwrite(_OverwriteFiles):
    """An evaluator per call: it has state, and threads share one in `_deleted_entries` of pyiceberg 0.12.

    Its scans had the same fault (apache/iceberg-python, pull requests 115 and 1664).
    """

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        build = super()._build_manifest_evaluator

        def may_name(manifest: ManifestFile) -> bool:
            return build(spec_id)(manifest)

        return may_name


def overwriting(update: UpdateSnapshot) -> _OverwriteFiles:
    """`update.overwrite()`, made safe for several manifests, which pyiceberg evaluates in threads."""
    snapshot = update.overwrite()
    snapshot.__class__ = _ThreadSafeOverwrite  # `UpdateSnapshot` has no parameter for the class
    return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The files to add to a table, by address, and to remove from it."""

    added: tuple[str, ...] = ()
    removed: tuple[IcebergFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """A table with the files of the run; `snapshot_id` is the one that the run's tag names."""

    table: tuple[str, str]
    snapshot_id: int
    rows: int
    change: Change


def publish_table(catalog: Catalog, target: TableTarget, stamp: RunStamp) -> TableCommit:
    """Brings the table to hold exactly the target's files of the run's date, tagged by the run id.

    Raises `PublishFailed`, which is transient, if the catalog did not commit.
    """
    return publish_into(catalog, target, find_table(catalog, target.name), stamp)


def publish_into(catalog: Catalog, target: TableTarget, table: Table | None, stamp: RunStamp) -> TableCommit:
    """The same for a table that was just loaded; None creates a new one."""
    change = change_to(table, target, stamp.day)
    if table is None or change or stamp.run_id not in table.refs():
        table = _commit(catalog, table, target, stamp, change)
    check_published(table, target, stamp)
    snapshot_id = table.refs()[stamp.run_id].snapshot_id
    return TableCommit(table=target.name, snapshot_id=snapshot_id, rows=target.rows, change=change)


def find_table(catalog: Catalog, name: tuple[str, ...]) -> Table | None:
    """The table as the catalog has it now, if it has one."""
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None
    except Exception as error:
        raise PublishFailed(f"{'.'.join(name)}: the catalog cannot load the table: {error}") from error


def files_of(table: Table, day: date, snapshot_id: int | None = None) -> dict[str, IcebergFile]:
    """The table's files of a run date by address, as of a snapshot or now."""
    try:
        return {file.file_path: file for file in dated_files(table, day, snapshot_id)}
    except Exception as error:  # damaged Avro bytes can raise any exception in pyiceberg
        name = ".".join(table.name())
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise PublishFailed(f"{name}: its manifests cannot be read now: {error}") from error
        raise Damaged(
            f"{name}: its manifests in {table.location()}/metadata are damaged or gone "
            f"({type(error).__name__}: {error}); {RESTORE}"
        ) from error


def change_to(table: Table | None, target: TableTarget, day: date) -> Change:
    """The change from the table's files of `day` to those of the target; None is an empty table."""
    found = files_of(table, day) if table is not None else {}
    wanted = {file.location for file in target.files}
    return Change(
        added=tuple(sorted(wanted - found.keys())),
        removed=tuple(found[path] for path in sorted(found.keys() - wanted)),
    )


def check_published(table: Table, target: TableTarget, stamp: RunStamp) -> None:
    """Raises `PublishedDiffers` unless the snapshot of the run's tag has exactly the target's files."""
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
    """Commits the change; returns the table as the catalog answered or, if the response is lost, as it is."""
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
    except Exception as error:  # a catalog can raise any exception: the table shows whether it committed
        now = find_table(catalog, target.name)
        if now is None or stamp.run_id not in now.refs() or change_to(now, target, stamp.day):
            name = ".".join(target.name)
            raise PublishFailed(f"{name}: run {stamp.run_id} was not committed: {error}") from error
        return now


def _described(begun: TableChange, paths: Sequence[str], day: date) -> tuple[IcebergFile, ...]:
    """The files as manifest entries; their statistics must prove that all rows are of `day`.

    Without statistics Iceberg would record a null date, and queries by date would miss the rows.
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
    """Adds one snapshot: an append if no file is removed, so that incremental readers can follow it."""
    update = transaction.update_snapshot(snapshot_properties=summary)
    with overwriting(update) if removed else update.merge_append() as snapshot:
        for file in removed:
            snapshot.delete_data_file(file)
        for file in added:
            snapshot.append_data_file(file)
        return snapshot.snapshot_id


def withdraw_run(catalog: Catalog, namespaces: tuple[str, str], run_id: str, day: date) -> int:
    """Removes the run from all tables; returns how many held it. `runs` goes first: its row marks the run as
    complete.
    """
    found = 0
    for name in sorted(_tables(catalog, namespaces), key=lambda name: (name[-1] != RUNS.name, name)):
        table = find_table(catalog, name)
        if table is not None and _holds(table, run_id, day):
            _withdraw(catalog, table, name, run_id, day)
            found += 1
    return found


def _tables(catalog: Catalog, namespaces: tuple[str, str]) -> Iterator[TableName]:
    for namespace in namespaces:
        yield from catalog.list_tables(namespace)


def _files_of_run(table: Table, run_id: str, day: date) -> list[IcebergFile]:
    return [file for path, file in sorted(files_of(table, day).items()) if f"/runs/{run_id}/" in path]


def _holds(table: Table, run_id: str, day: date) -> bool:
    return run_id in table.refs() or bool(_files_of_run(table, run_id, day))


def _withdraw(catalog: Catalog, table: Table, name: TableName, run_id: str, day: date) -> None:
    files = _files_of_run(table, run_id, day)
    try:
        with table.transaction() as transaction:
            if files:
                update = transaction.update_snapshot(snapshot_properties={ROLLBACK_PROPERTY: run_id})
                with overwriting(update) as snapshot:
                    for file in files:
                        snapshot.delete_data_file(file)
            if run_id in table.refs():
                with ManageSnapshots(transaction) as refs:
                    refs.remove_tag(run_id)
    except Exception as error:  # a catalog can raise any exception: the table shows whether it committed
        now = find_table(catalog, name)
        if now is None or _holds(now, run_id, day):
            raise PublishFailed(f"{'.'.join(name)}: run {run_id} was not rolled back: {error}") from error
