"""The files that a table holds of one run date, as its manifests name them.

Tables are divided by run date alone, so a manifest's bounds and a file's partition say all that a scan would
find out; a table with another partition spec is scanned.
"""

from collections.abc import Iterator
from datetime import date

from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.literals import DateLiteral
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.datetime import date_to_days

from spark_jobs.tables.contract import RUN_DATE


def dated_files(table: Table, day: date, snapshot_id: int | None = None) -> Iterator[DataFile]:
    """The table's files of a run date, as of a snapshot or now."""
    if is_divided_by_date(table):
        return _named(table, date_to_days(day), snapshot_id)
    return scanned_files(table, day, snapshot_id)


def is_divided_by_date(table: Table) -> bool:
    """Whether each file's partition is its run date, also of those that were added long ago."""
    divisions = [spec.fields for spec in table.specs().values()]
    return all(
        [field.name for field in fields] == [RUN_DATE.name]
        and isinstance(fields[0].transform, IdentityTransform)
        for fields in divisions
    )


def scanned_files(table: Table, day: date, snapshot_id: int | None = None) -> Iterator[DataFile]:
    """The same of a table that is divided in any way."""
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
    """False if all its files are of earlier dates or of later ones."""
    bounds = manifest.partitions[0] if manifest.partitions else None
    if bounds is None or bounds.lower_bound is None or bounds.upper_bound is None:
        return True
    return _days(bounds.lower_bound) <= days <= _days(bounds.upper_bound)


def _days(bound: bytes) -> int:
    """Iceberg's date: days since 1970 in four bytes, the lowest first."""
    return int.from_bytes(bound, "little", signed=True)
