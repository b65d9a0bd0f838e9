"""Batches that are held: which ones, and how they are kept until a later run publishes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, MAGIC_V2
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.folds import STRETCH
from spark_jobs.lake.index_rows import values
from spark_jobs.lake.inherited_rows import (
    INHERITED,
    InheritedRows,
    by_stretch,
    get_inherited,
    inherited_object,
    put_inherited,
)
from spark_jobs.lake.manifest import ManifestEntry
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_groups
from spark_jobs.pipeline.resolve.parts import Flags, Int64s

NO_OFFSET = -1
_FROM_HEADER = [
    name for name in INHERITED.names or () if name not in {"object", "offset", "txn_first_offset"}
]
_COLUMNS = ["object_order", "offset", "txn_first_offset", "verdict", *_FROM_HEADER]
_END = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Which batches are held: from `cut` on all that may still be published, before it `below_published`.

    `aborted` and `below_published` are first offsets of transactions, ascending.
    """

    cut: int
    aborted: Int64s
    below_published: Int64s

    def takes(self, offset: Int64s, txn_first_offset: Int64s) -> Flags:
        """Which batches are held."""
        is_aborted = _is_in(txn_first_offset, self.aborted)
        is_below_published = _is_in(txn_first_offset, self.below_published)
        return np.where(offset >= self.cut, ~is_aborted, is_below_published)

    @property
    def first_offset(self) -> int:
        """No batch before this one is held."""
        return min(self.cut, int(self.below_published[0]) if self.below_published.size else self.cut)


def _is_in(offsets: Int64s, sorted_offsets: Int64s) -> Flags:
    place = np.searchsorted(sorted_offsets, offsets)
    found: Flags = np.append(sorted_offsets, NO_OFFSET - 1)[place] == offsets
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBatches:
    """The run's batches of one partition: key of their file, and the objects that they are in."""

    key: str = ""
    objects: tuple[ManifestEntry, ...] = field(default=())

    def held(self, lake: ObjectStore, holding: Holding) -> Iterator[InheritedRows]:
        """The accepted data that is held, by offset, in parts."""
        if not self.key:
            return
        ordered = sorted(self.objects, key=lambda entry: entry.order)
        orders = np.array([entry.order for entry in ordered], dtype=np.int64)
        objects = tuple(map(inherited_object, ordered))
        for batch in iter_groups(lake, self.key, "offset", holding.first_offset, _END, columns=_COLUMNS):
            rows = _data_rows(batch, orders)
            chosen = rows[
                holding.takes(rows["offset"].astype(np.int64), rows["txn_first_offset"].astype(np.int64))
            ]
            if len(chosen):
                yield InheritedRows(objects=objects, rows=chosen)


def _data_rows(batch: pa.RecordBatch, orders: npt.NDArray[np.int64]) -> Rows:
    """Accepted batches that hold records, as rows of `INHERITED`."""
    taken = batch.filter(pc.equal(batch.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))
    is_control = values(taken, "attributes") & CONTROL_FLAG != 0
    taken = taken.filter(pa.array(~is_control | (values(taken, "magic") < MAGIC_V2)))
    rows = np.zeros(taken.num_rows, dtype=INHERITED)
    for name in _FROM_HEADER:
        rows[name] = values(taken, name)
    rows["object"] = np.searchsorted(orders, values(taken, "object_order"))
    rows["offset"] = values(taken, "offset")
    rows["txn_first_offset"] = taken.column("txn_first_offset").fill_null(NO_OFFSET).to_numpy()
    return rows


def hold(lake: ObjectStore, holding: Holding, before: Rows, batches: RunBatches) -> Rows:
    """Keeps the batches that are held; `before` are the stretches of earlier runs. Returns the new stretches.

    A stretch at a time is in memory.
    """
    held: list[tuple[int, int, bytes]] = []
    for number, kept in by_stretch(chain(_held_before(lake, holding, before), batches.held(lake, holding))):
        held.append((number, len(kept.rows), bytes.fromhex(put_inherited(lake, kept))))
    return np.array(held, dtype=STRETCH)


def _held_before(lake: ObjectStore, holding: Holding, stretches: Rows) -> Iterator[InheritedRows]:
    for digest in stretches["digest"]:
        inherited = get_inherited(lake, bytes(digest).hex())
        rows = inherited.rows
        chosen = rows[
            holding.takes(rows["offset"].astype(np.int64), rows["txn_first_offset"].astype(np.int64))
        ]
        if len(chosen):
            yield InheritedRows(objects=inherited.objects, rows=chosen)
