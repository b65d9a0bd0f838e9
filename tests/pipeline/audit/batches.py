"""Rows of `batches` for the audit's counting, a few words each."""

from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.pipeline.audit.columns import READ, AcceptedBatches, accepted_of
from spark_jobs.tables.admit import BATCHES

ROW: dict[str, Any] = {
    "object_order": 0,
    "magic": 2,
    "attributes": 0,
    "last_offset_delta": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "record_count": 1,
    "max_timestamp": 0,
    "verdict": "accepted",
    "offset": 0,
    "txn_first_offset": None,
}
NO_GAPS = np.empty((0, 2), dtype=np.int64)


def part(*rows: dict[str, Any]) -> pa.RecordBatch:
    """A part of the table, with the columns that are read."""
    schema = pa.schema([BATCHES.schema.field(name) for name in READ])
    return pa.RecordBatch.from_pylist([ROW | row for row in rows], schema=schema)


def accepted(*rows: dict[str, Any]) -> AcceptedBatches:
    return accepted_of(part(*rows))


def sent(
    producer: int, epoch: int, sequence: int, *, offset: int = 0, records: int = 1, timestamp: int = 0
) -> dict[str, Any]:
    """A batch of an idempotent producer."""
    return {
        "producer_id": producer,
        "producer_epoch": epoch,
        "base_sequence": sequence,
        "last_offset_delta": records - 1,
        "record_count": records,
        "max_timestamp": timestamp,
        "offset": offset,
    }
