"""Transaction indexes of tiered storage as a second witness of aborted transactions (facts §1.9, §1.15).

Markers decide. The index that was uploaded with a segment lists the transactions whose abort markers are in
the segment; where the two differ, the log or the index is not what its broker wrote.
"""

from collections.abc import Iterable

import numpy as np

from spark_jobs.kafka.errors import CorruptTxnIndex
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.indexes import AbortedTxn, read_txn_index
from spark_jobs.kafka.formats.tier_files import parse_tier_name
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.index_rows import values
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole, StagedObjects
from spark_jobs.pipeline.partition_memory import Judged

Aborted = tuple[int, int]
"""Producer id and the offset of the marker."""


class TxnIndexWitness:
    """Compares the aborted transactions of one partition with the indexes of uploaded segments."""

    def __init__(self, logs: Iterable[ManifestEntry], indexes: Iterable[ManifestEntry]) -> None:
        self._indexes = tuple(indexes)
        self._logs = [
            entry.order
            for entry in logs
            if entry.role is ObjectRole.LOG and parse_tier_name(entry.name) is not None
        ]
        self._by_markers: dict[Aborted, int] = {}
        self._in_tier: set[Aborted] = set()

    def add(self, judged: Judged, closed: Rows) -> None:
        """A chunk: the transactions that it closed, and which of their markers are in uploaded segments."""
        aborted = closed[(closed["batches"] > 0) & (closed["marker_type"] == int(ControlType.ABORT))]
        if not self._logs or not len(aborted):
            return
        is_uploaded = judged.is_accepted & np.isin(values(judged.rows, "object_order"), self._logs)
        uploaded = values(judged.rows, "base_offset")[is_uploaded]
        in_tier = np.isin(aborted["marker_offset"], uploaded)
        for row, is_in_tier in zip(aborted, in_tier.tolist(), strict=True):
            each = int(row["producer_id"]), int(row["marker_offset"])
            self._by_markers[each] = int(row["first_offset"])
            if is_in_tier:
                self._in_tier.add(each)

    def differences(
        self, staged: StagedObjects, *, log_start_offset: int, first: int, end: int
    ) -> tuple[str, ...]:
        """Sentences about what differs between offsets `first` and `end`, which this run has judged."""
        listed: dict[Aborted, AbortedTxn] = {}
        found: list[str] = []
        for entry in self._indexes:
            name = f"{entry.source}/{entry.path}"
            try:
                entries = read_txn_index(staged.read(entry), source=name)
            except CorruptTxnIndex as problem:
                found.append(f"{problem}; its aborted transactions are not compared")
                continue
            listed |= {(each.producer_id, each.last_offset): each for each in entries}
        for txn in listed.values():
            is_judged = first <= txn.last_offset < end and txn.first_offset >= log_start_offset
            began = self._by_markers.get((txn.producer_id, txn.last_offset))
            if is_judged and began != txn.first_offset:
                markers = "do not show it" if began is None else f"show it from offset {began} on"
                found.append(
                    f"transaction indexes list an aborted transaction of producer {txn.producer_id} from "
                    f"offset {txn.first_offset} to its marker at {txn.last_offset}; the markers {markers}"
                )
        found += (
            f"the marker at offset {marker} aborts a transaction of producer {producer_id} that no "
            "transaction index lists"
            for producer_id, marker in sorted(self._in_tier - listed.keys())
        )
        return tuple(found)
