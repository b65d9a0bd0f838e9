"""Stretches of a walk as rows of the table `index`."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.indexing.damage import Damage
from spark_jobs.indexing.walk import Stretch
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, HeaderColumns, allocate, concatenate
from spark_jobs.tables.index import INDEX

Counts = npt.NDArray[np.int32]
NOT_A_BATCH = -1
"""In the header columns of a stretch without a header."""


class RowBuffer:
    """Rows of one index file that wait to be written, in arrival order."""

    def __init__(self) -> None:
        self._parts: list[HeaderColumns] = []
        self._orders: list[int] = []
        self._without_key: list[Counts] = []
        self._reasons: dict[int, str] = {}
        self.rows = 0

    def add(self, object_order: int, stretch: Stretch) -> None:
        """The batches of `stretch`, which is in the object of that order."""
        positions = stretch.columns.position
        for damage in stretch.damaged:
            self._reasons[self.rows + int(np.searchsorted(positions, damage.position))] = damage.reason
        self._append(object_order, stretch.columns, stretch.records_without_key)

    def add_damage(self, object_order: int, damage: Damage) -> None:
        """One row for a stretch that is no batch."""
        self._reasons[self.rows] = damage.reason
        self._append(object_order, _damage_row(damage), None)

    def take(self) -> pa.Table:
        """All waiting rows, at least one, as a table of `index`; the buffer is empty afterwards."""
        without_key = np.concatenate(self._without_key)
        table = _table(concatenate(self._parts), self._object_orders(), self._problems(), without_key)
        self._parts, self._orders, self._without_key, self._reasons, self.rows = [], [], [], {}, 0
        return table

    def _append(self, object_order: int, columns: HeaderColumns, without_key: Counts | None) -> None:
        if columns.rows:
            self._parts.append(columns)
            self._orders.append(object_order)
            none = np.zeros(columns.rows, dtype=np.int32)
            self._without_key.append(none if without_key is None else without_key)
            self.rows += columns.rows

    def _object_orders(self) -> npt.NDArray[np.int32]:
        return np.repeat(np.array(self._orders, dtype=np.int32), [part.rows for part in self._parts])

    def _problems(self) -> pa.StringArray:
        if not self._reasons:
            return pa.nulls(self.rows, pa.string())
        return pa.array((self._reasons.get(row) for row in range(self.rows)), pa.string(), size=self.rows)


def _table(columns: HeaderColumns, orders: Counts, problems: pa.StringArray, without_key: Counts) -> pa.Table:
    no_control = columns.control_type == NO_CONTROL_TYPE
    arrays = {
        **columns._asdict(),
        "object_order": orders,
        "control_type": pa.array(columns.control_type, mask=no_control),
        "coordinator_epoch": pa.array(columns.coordinator_epoch, mask=no_control),
        "problem": problems,
        "records_without_key": without_key,
    }
    return INDEX.cast(pa.table({name: arrays[name] for name in INDEX.schema.names}))


def _damage_row(damage: Damage) -> HeaderColumns:
    row = allocate(1)
    for column in row:
        column[0] = NOT_A_BATCH if column.dtype.kind == "i" else 0
    row.position[0], row.size[0] = damage.position, damage.size
    row.control_type[0] = NO_CONTROL_TYPE
    return row
