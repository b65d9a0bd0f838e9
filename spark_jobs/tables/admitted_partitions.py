"""`admitted_partitions`: what a night brought to each partition."""

import pyarrow as pa

from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.protocol.verdict import VerdictGroup
from spark_jobs.tables.contract import Column, Contract

GROUP_MEANINGS = {
    VerdictGroup.ACCEPTED: "batches taken",
    VerdictGroup.DUPLICATE: "batches that were there already",
    VerdictGroup.REJECTED: "batches refused",
    VerdictGroup.CORRUPT: "stretches of bytes that are no batch",
    VerdictGroup.HELD: "batches that wait",
}

KIND_OF = {AppendOrigin.CLIENT: "capture", AppendOrigin.REPLICATION: "broker-log"}
"""The column `kind` by who gave the partition's batches their offsets: the run, or brokers."""

ADMITTED_PARTITIONS = Contract(
    name="admitted_partitions",
    meaning="One row per partition with objects tonight; `rows` is the sum of the five groups of verdicts.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("kind", pa.string(), " or ".join(KIND_OF.values())),
        Column("batches", pa.string(), "file with the verdicts, below the folder of the step admit"),
        Column("rows", pa.int64(), "batches of the night, those that waited for it, and given markers"),
        Column("carried", pa.int64(), "batches that came in an earlier night and waited"),
        Column("markers", pa.int64(), "markers that the coordinator's log gave, since the capture has none"),
        *(Column(group.value, pa.int64(), meaning) for group, meaning in GROUP_MEANINGS.items()),
        Column("start_offset", pa.int64(), "log end before the night"),
        Column("end_offset", pa.int64(), "log end after the night"),
        Column("log_start_offset", pa.int64(), "first offset that the log still promises"),
        Column(
            "first_unstable_offset", pa.int64(), "where the oldest transaction without marker begins", True
        ),
        Column("leader_epoch", pa.int32(), "newest leader epoch"),
        Column("producers", pa.int64(), "producers that the partition knows after the night"),
        Column("gaps", pa.int64(), "ranges of offsets that no copy has, and that nothing explains"),
        Column("cleaned_offset", pa.int64(), "below it a broker's cleaner was, so holes are explained"),
        Column("critical", pa.int64(), "plain batches inside open transactions: no broker loads such a log"),
        Column("transactions", pa.string(), "file with its transactions; null if it had none", True),
        Column("state", pa.string(), "SHA-256 of its state file after the night"),
    ),
    key=("topic", "partition"),
)
