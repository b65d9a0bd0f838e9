"""Takes a published run out of the tables again: its files and its tag, in one commit per table."""

from collections.abc import Iterator
from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from spark_jobs.storage.errors import PublishFailed
from spark_jobs.storage.iceberg.commits import files_of, find_table
from spark_jobs.storage.iceberg.overwriting import overwriting
from spark_jobs.tables.publish import RUNS

TableName = tuple[str, ...]


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
                update = transaction.update_snapshot(snapshot_properties={"onceover.rollback": run_id})
                with overwriting(update) as snapshot:
                    for file in files:
                        snapshot.delete_data_file(file)
            if run_id in table.refs():
                with ManageSnapshots(transaction) as refs:
                    refs.remove_tag(run_id)
    except Exception as error:  # whatever a catalog raises: what counts is what the table says afterwards
        now = find_table(catalog, name)
        if now is None or _holds(now, run_id, day):
            raise PublishFailed(f"{'.'.join(name)}: run {run_id} was not rolled back: {error}") from error
