"""Rows of batches as the columns that kernels read, whatever file they come from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kernels.columns import HeaderColumns, concatenate
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.record_batch import CONTROL_FLAG, MAGIC_V2
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.tables.admit import MARKER_OBJECT

NONE = -1
"""Stands for a null offset."""

HEADER_NAMES = tuple(name for name in HeaderColumns._fields if name != "crc_ok")
COLUMNS = [*HEADER_NAMES, "object_order", "verdict", "offset", "txn_first_offset"]
"""What is read of the table `batches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows:
    """Batches, accepted ones ascending; `headers.base_offset` is the offset that each was given, or `NONE`.

    `object_order` says in which object each lies, `txn_first_offset` where its transaction began, or `NONE`.
    """

    headers: HeaderColumns
    is_accepted: npt.NDArray[np.bool_]
    object_order: npt.NDArray[np.int32]
    txn_first_offset: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        return self.headers.rows

    @property
    def is_data(self) -> npt.NDArray[np.bool_]:
        """Whether a batch holds records rather than a marker."""
        is_control = (self.headers.attributes & CONTROL_FLAG).astype(np.bool_)
        return ~is_control | (self.headers.magic < MAGIC_V2)

    @property
    def is_given_marker(self) -> npt.NDArray[np.bool_]:
        """Whether a batch is a marker that the coordinator's log gave: it is in no object."""
        given: npt.NDArray[np.bool_] = self.object_order == MARKER_OBJECT
        return given

    @property
    def last_offset(self) -> npt.NDArray[np.int64]:
        return self.headers.base_offset + self.headers.last_offset_delta

    @property
    def span(self) -> tuple[int, int]:
        """Where in their object the first of them begins and the last one ends."""
        return int(self.headers.position[0]), int(self.headers.position[-1] + self.headers.size[-1])

    def take(self, chosen: npt.NDArray[Any] | slice) -> "BatchRows":
        """The rows at the indices, under the mask, or in the slice `chosen`."""
        return BatchRows(
            headers=HeaderColumns._make(column[chosen] for column in self.headers),
            is_accepted=self.is_accepted[chosen],
            object_order=self.object_order[chosen],
            txn_first_offset=self.txn_first_offset[chosen],
        )

    def move(self, by: int) -> "BatchRows":
        """The same batches, their positions `by` bytes further on."""
        return replace(self, headers=self.headers._replace(position=self.headers.position + by))

    def parts(self, cuts: npt.NDArray[np.int64]) -> Iterator["BatchRows"]:
        """The rows up to each of `cuts`, and those after the last; never an empty part."""
        edges = [0, *cuts.tolist(), self.rows]
        for start, end in pairwise(edges):
            if start < end:
                yield self.take(slice(start, end))


def join_rows(parts: Sequence[BatchRows]) -> BatchRows:
    """All rows of `parts`, in order."""
    return BatchRows(
        headers=concatenate([part.headers for part in parts]),
        is_accepted=np.concatenate([part.is_accepted for part in parts]),
        object_order=np.concatenate([part.object_order for part in parts]),
        txn_first_offset=np.concatenate([part.txn_first_offset for part in parts]),
    )


def from_batches(batch: pa.RecordBatch) -> BatchRows:
    """Rows of the table `batches`."""
    columns = {name: _numbers(batch.column(name)) for name in HEADER_NAMES}
    return _rows(
        {**columns, "base_offset": _numbers(batch.column("offset"))},
        is_accepted=np.asarray(pc.equal(batch.column("verdict"), pa.scalar(Verdict.ACCEPTED.value))),
        object_order=_numbers(batch.column("object_order")),
        txn_first_offset=_numbers(batch.column("txn_first_offset")),
    )


def from_inherited(rows: Rows) -> BatchRows:
    """Rows of dtype `INHERITED`; their objects count in the file that they come from."""
    columns = {name: _native(rows[name]) for name in HEADER_NAMES}
    return _rows(
        {**columns, "base_offset": _native(rows["offset"])},
        is_accepted=np.ones(rows.size, dtype=np.bool_),
        object_order=_native(rows["object"]),
        txn_first_offset=_native(rows["txn_first_offset"]),
    )


def _rows(
    columns: dict[str, npt.NDArray[Any]],
    *,
    is_accepted: npt.NDArray[np.bool_],
    object_order: npt.NDArray[np.int32],
    txn_first_offset: npt.NDArray[np.int64],
) -> BatchRows:
    crc_ok = np.ones(object_order.size, dtype=np.bool_)
    return BatchRows(
        headers=HeaderColumns(**columns, crc_ok=crc_ok),
        is_accepted=is_accepted,
        object_order=object_order,
        txn_first_offset=txn_first_offset,
    )


def _numbers(column: "pa.Array[Any]") -> npt.NDArray[Any]:
    filled = column.fill_null(NONE) if column.null_count else column
    return np.asarray(filled)


def _native(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column.astype(column.dtype.newbyteorder("="))
