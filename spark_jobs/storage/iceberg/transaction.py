"""A transaction that works out the table's metadata once per change, not once per question."""

from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata


class RememberingTransaction(Transaction):
    """pyiceberg asks for the metadata some twenty times per commit, and copies all snapshots each time."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[object, object, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table as it would be with the updates so far."""
        table, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not table or self._known[1] is not updates:
            self._known = (table, updates, update_table_metadata(table, updates))
        return self._known[2]
