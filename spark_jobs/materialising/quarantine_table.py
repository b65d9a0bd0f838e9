"""The quarantine: rejected, corrupt, unreadable, held and parked batches, with their bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.materialising.outcomes import ABORTED, COMMITTED, View
from spark_jobs.materialising.reads import plan_reads
from spark_jobs.materialising.rows import NONE, BatchRows
from spark_jobs.materialising.sources import Objects
from spark_jobs.protocol.verdict import Verdict, VerdictGroup
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.publish import OWN_TABLES

SCHEMA = OWN_TABLES["quarantine"].schema

_KINDS = {
    VerdictGroup.REJECTED: QuarantineKind.REJECTED,
    VerdictGroup.CORRUPT: QuarantineKind.CORRUPT,
    VerdictGroup.HELD: QuarantineKind.HELD,
}
_KIND_OF = {
    verdict.value: _KINDS[verdict.group].value
    for verdict in Verdict
    if verdict.group in _KINDS and (verdict.waits_for or verdict.group is not VerdictGroup.HELD)
}
"""Of verdicts that lead here. Duplicates do not: their originals are in the tables. Nor does what a gap in a
broker's log holds: the table `gaps` says what is missing, and the batches come by themselves."""
_KIND_TYPE = f"U{max(map(len, QuarantineKind))}"


_BEHIND = "it follows a transaction that is not decided yet"
"""Why an accepted batch is held though its own transaction is decided."""


def _why_waiting(outcomes: Sequence[str | None]) -> "pa.Array[Any]":
    """Why batches of transactions with these outcomes are held."""
    said = [_BEHIND if each in {None, COMMITTED} else f"its transaction is {each}" for each in outcomes]
    return pa.array(said, pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineTable:
    """Makes rows of the table `quarantine` for one partition; bytes beyond `most_bytes` are left out."""

    objects: Objects
    view: View
    most_bytes: int

    def rows_of(self, batches: pa.Table, rows: BatchRows) -> Iterator[pa.Table]:
        """Those of `batches`, published rows, that belong here; `rows` are the same in the same order."""
        kinds = self._kinds(batches, rows)
        chosen = np.flatnonzero(kinds != "")
        is_large = rows.headers.size[chosen] > self.most_bytes
        for row in chosen[is_large]:
            yield self._table(batches.slice(row, 1), kinds[[row]], pa.nulls(1, pa.binary()))
        chosen = chosen[~is_large]
        for stretch in plan_reads(rows.take(chosen)):
            part = chosen[stretch]
            yield self._table(batches.take(part), kinds[part], self._bytes(rows.take(part)))

    def _kinds(self, batches: pa.Table, rows: BatchRows) -> npt.NDArray[np.str_]:
        """Why each row is here, empty where it is not; a marker that is in no object never is."""
        verdicts = np.asarray(batches.column("verdict").to_numpy())
        kinds = np.zeros(verdicts.size, dtype=_KIND_TYPE)
        for verdict, kind in _KIND_OF.items():
            kinds[verdicts == verdict] = kind
        kinds[(kinds == "") & self._waits(rows)] = QuarantineKind.HELD.value
        kinds[np.asarray(batches.column("path").is_null())] = ""
        return kinds

    def _waits(self, rows: BatchRows) -> npt.NDArray[np.bool_]:
        """Accepted, but not decided yet, or behind something that is not."""
        indices = self.view.outcomes.index_of(np.where(rows.is_accepted, rows.txn_first_offset, NONE))
        is_aborted: npt.NDArray[np.bool_] = np.append(self.view.outcomes.are(ABORTED), False)[indices]
        is_beyond: npt.NDArray[np.bool_] = rows.headers.base_offset >= self.view.end_offset
        return rows.is_accepted & rows.is_data & is_beyond & ~is_aborted

    def _bytes(self, rows: BatchRows) -> "pa.Array[Any]":
        """The batches themselves: they lie together in one object."""
        start = int(rows.headers.position[0])
        end = int(rows.headers.position[-1] + rows.headers.size[-1])
        data = memoryview(self.objects.read(int(rows.object_order[0]), start, end - start))
        places = zip((rows.headers.position - start).tolist(), rows.headers.size.tolist(), strict=True)
        return pa.array([bytes(data[at : at + size]) for at, size in places], pa.binary())

    def _table(self, batches: pa.Table, kinds: npt.NDArray[np.str_], data: "pa.Array[Any]") -> pa.Table:
        added: dict[str, Any] = {
            "kind": pa.array(kinds.tolist(), pa.string()),
            "reason": pc.coalesce(
                batches.column("reason"), _why_waiting(batches.column("outcome").to_pylist())
            ),
            "bytes": data,
        }
        columns = [added[name] if name in added else batches.column(name) for name in SCHEMA.names]
        return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)
