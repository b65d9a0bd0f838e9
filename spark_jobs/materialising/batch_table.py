"""The published verdicts: with the object's path, the transaction's outcome, and decoding errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.materialising.outcomes import Outcomes, names_of
from spark_jobs.materialising.rows import NONE
from spark_jobs.materialising.summaries import ObjectPlace
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.tables.contract import as_published
from spark_jobs.tables.publish import OWN_TABLES

Unreadable = Mapping[tuple[int, int], str]
"""(object order, position) → why the batch's records cannot be decoded."""

SCHEMA = OWN_TABLES["batches"].schema


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTable:
    """Makes rows of the published table `batches` for one partition."""

    objects: Sequence[ObjectPlace]
    outcomes: Outcomes
    unreadable: Unreadable
    run_date: date

    def rows_of(self, batches: pa.RecordBatch) -> pa.Table:
        """Rows of `admit` with all that was found out since."""
        count = batches.num_rows
        columns: dict[str, Any] = {name: batches.column(name) for name in batches.schema.names}
        columns |= self._corrected(batches)
        first_offsets = np.asarray(batches.column("txn_first_offset").fill_null(NONE))
        columns["outcome"] = names_of(self.outcomes.outcome, self.outcomes.index_of(first_offsets))
        columns["path"] = self._paths(np.asarray(batches.column("object_order")))
        columns["run_date"] = pa.repeat(pa.scalar(self.run_date, pa.date32()), count)
        return as_published(pa.table(columns), SCHEMA)

    def _paths(self, orders: npt.NDArray[np.int32]) -> "pa.Array[Any]":
        """The path of each row's object, null where it is in none."""
        objects = sorted(self.objects, key=lambda place: place.order)
        known = np.array([*(place.order for place in objects), NONE], dtype=np.int64)
        index = np.searchsorted(known[:-1], orders)
        found = np.where(known[index] == orders, index, NONE)
        return names_of(pa.array([place.path for place in objects], pa.string()), found)

    def _corrected(self, batches: pa.RecordBatch) -> dict[str, Any]:
        """Header and checksum were right, so the batch was taken; its records turned out to be none."""
        if not self.unreadable:
            return {}
        places = zip(
            *(batches.column(name).to_pylist() for name in ("object_order", "position")), strict=True
        )
        reasons = [self.unreadable.get(place) for place in places]
        is_bad = [reason is not None for reason in reasons]
        corrected = {
            "verdict": Verdict.CORRUPT.value,
            "kafka_error": Verdict.CORRUPT.kafka_error.name,
        }
        columns = {
            name: [
                value if bad else old
                for bad, old in zip(is_bad, batches.column(name).to_pylist(), strict=True)
            ]
            for name, value in corrected.items()
        }
        old_reasons = batches.column("reason").to_pylist()
        columns["reason"] = [new or old for new, old in zip(reasons, old_reasons, strict=True)]
        return {name: pa.array(values, pa.string()) for name, values in columns.items()}
