"""`quarantine`: what was not published, with its bytes and the reason, so that a person can decide on it."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract


class QuarantineKind(StrEnum):
    """Why something is in quarantine."""

    REJECTED = "rejected"
    CORRUPT = "corrupt"
    HELD = "held"
    UNFIT = "unfit"


QUARANTINE = Contract(
    name="quarantine",
    meaning="Batches that were refused, unreadable or held back, and values that do not fit their schema.",
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("source", pa.string(), "name of the source that the batch came from"),
        Column("path", pa.string(), "object that it lies in, below the source's root"),
        Column("position", pa.int64(), "byte at which it starts in its object"),
        Column("size", pa.int64(), "bytes of the batch, or of the stretch that is no batch"),
        Column("kind", pa.string(), "rejected, corrupt, held (until its transaction is decided) or unfit"),
        Column("verdict", pa.string(), "what became of the batch"),
        Column("kafka_error", pa.string(), "name of the error that a broker answers; NONE if it would not"),
        Column("reason", pa.string(), "what is wrong, as a sentence", True),
        Column("offset", pa.int64(), "first offset of the batch, or offset of the unfit record", True),
        Column("producer_id", pa.int64(), "-1 without a producer id"),
        Column("producer_epoch", pa.int32(), "-1 without a producer id"),
        Column("base_sequence", pa.int32(), "sequence of the first record; -1 for none"),
        Column("record_count", pa.int32(), "records that the header claims"),
        Column(
            "bytes", pa.binary(), "the batch, or the unfit value; null where it is beyond the limit", True
        ),
    ),
    key=("topic", "partition", "source", "path", "position", "offset"),
)
