"""`batches`: the verdict on every batch, with what was expected and what was found."""

from typing import Any

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract, with_labels
from spark_jobs.tables.index import ASCENDING_COLUMNS, HEADER_COLUMNS, PARQUET_OPTIONS

MARKER_OBJECT = -(2**31)
"""`object_order` of a marker that stands in no object: the coordinator's log gave it."""

BATCHES = Contract(
    name="batches",
    meaning=(
        "Every batch of the run, and every one that waited for it, with exactly one verdict; accepted ones "
        "ascend by offset."
    ),
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("source", pa.string(), "name of the source that the batch came from"),
        Column("copy", pa.int32(), "which copy of the partition's log: 0 for captures, else one per replica"),
        *HEADER_COLUMNS,
        Column("verdict", pa.string(), "what became of the batch"),
        Column("kafka_error", pa.string(), "name of the error that a broker answers; NONE if it would not"),
        Column("offset", pa.int64(), "first offset given to the batch, or a duplicate's original one", True),
        Column(
            "expected_sequence", pa.int32(), "sequence that would have continued the producer's chain", True
        ),
        Column("expected_epoch", pa.int16(), "the producer's epoch as the partition knew it", True),
        Column(
            "txn_first_offset", pa.int64(), "first offset of the transaction that the batch belongs to", True
        ),
        Column(
            "reason", pa.string(), "the verdict as a sentence; null when the batch was simply taken", True
        ),
    ),
    key=("topic", "partition", "copy", "object_order", "position"),
)

LABEL_COLUMNS = ("topic", "source", "verdict", "kafka_error")
BATCHES_OPTIONS: dict[str, Any] = {
    **PARQUET_OPTIONS,
    "use_dictionary": list(LABEL_COLUMNS),
    "column_encoding": dict.fromkeys(
        (*ASCENDING_COLUMNS, "offset", "txn_first_offset"), "DELTA_BINARY_PACKED"
    ),
    "write_statistics": ["offset"],
}
"""How files of this table are written: as those of `index`; who looks for offsets finds their row groups."""

BATCHES_WRITTEN = with_labels(BATCHES.schema, LABEL_COLUMNS)
