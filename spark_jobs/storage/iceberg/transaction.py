"""Transactions of pyiceberg's that work out the table's metadata once per change, not once per question."""

from typing import Self

from pyiceberg.io import FileIO
from pyiceberg.table import CreateTableTransaction, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate, _apply_table_update, _TableMetadataUpdateContext


class RememberingTransaction(Transaction):
    """The library asks for the metadata some twenty times per commit, and copies all snapshots each time."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[object, object, TableMetadata] | None = None

    @property
    def io(self) -> FileIO:
        """The way to the table's files."""
        return self._table.io

    @property
    def table_metadata(self) -> TableMetadata:
        """The table as it would be with the updates so far."""
        table, updates = self._table.metadata, self._updates
        if not updates:
            return table
        if self._known is None or self._known[0] is not table or self._known[1] is not updates:
            self._known = (table, updates, _with_updates(table, updates))
        return self._known[2]


class RememberingCreation(RememberingTransaction, CreateTableTransaction):
    """A table that comes to be with its first commit: before it nobody finds one without snapshots."""

    @classmethod
    def of(cls, begun: CreateTableTransaction) -> Self:
        """The same creation, with nothing done in it yet."""
        return cls(begun._table)  # noqa: SLF001 — catalogs say only so where the table would be

    def commit_transaction(self) -> Table:
        """The table that was made; it can be read, while one that is only staged refuses."""
        made = super().commit_transaction()
        return Table(made.name(), made.metadata, made.metadata_location, made.io, made.catalog, made.config)


def _with_updates(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    """What the library makes of it, but for its copy of the whole: updates change nothing in place."""
    context = _TableMetadataUpdateContext()
    updated = metadata
    for update in updates:
        updated = _apply_table_update(update, updated, context)
    return updated
