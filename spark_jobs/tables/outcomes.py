"""`outcomes`: what became of each transaction on one partition; a batch finds its own by where it began."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

OUTCOMES = Contract(
    name="outcomes",
    meaning="Transactions with data on one partition by first offset; the aborted ones are aborted ranges.",
    columns=(
        Column("first_offset", pa.int64(), "first offset of its data: `txn_first_offset` of its batches"),
        Column("last_offset", pa.int64(), "last offset of its data so far"),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "newest epoch of its data"),
        Column(
            "transactional_id", pa.string(), "its owner; null where the coordinator's log tells none", True
        ),
        Column("outcome", pa.string(), "committed, aborted, ongoing, hanging, conflict or ambiguous"),
        Column("timed_out", pa.bool_(), "aborted by its timeout at the run's time, not by anybody's word"),
        Column("marker_offset", pa.int64(), "offset of the marker that closed it here", True),
        Column("batches", pa.int64(), "its batches on the partition"),
        Column("records", pa.int64(), "records in them"),
    ),
    key=("first_offset",),
)
