"""Tables of `publish`: the row of each published run, and the published form of Onceover's own tables."""

import pyarrow as pa

from spark_jobs.tables.admit import GAPS
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from spark_jobs.tables.contract import Column, Contract, published
from spark_jobs.tables.deduplicate import DUPLICATES
from spark_jobs.tables.materialise import JUDGED_BATCHES, PRODUCERS, QUARANTINE
from spark_jobs.tables.resolve import CONSUMER_OFFSETS, TRANSACTIONS

COUNT_TYPE = pa.struct(
    [
        pa.field("step", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)

RUNS = Contract(
    name="runs",
    file="runs.parquet",
    meaning="Every published run: what it was made of, and what its steps counted. Written after all tables.",
    columns=(
        Column("run_id", pa.string(), "the run; also the tag of its cut in every table"),
        Column("manifest", pa.string(), "SHA-256 of what was staged"),
        Column("config", pa.string(), "SHA-256 of the settings that decide what a run yields"),
        Column("state_in", pa.string(), "SHA-256 of the state that the run started from"),
        Column("state_out", pa.string(), "SHA-256 of the state that the next run starts from"),
        Column(
            "counts",
            pa.list_(pa.field("element", COUNT_TYPE, nullable=False)),
            "what each step counted, in the order of the steps",
        ),
    ),
    key=("run_id",),
)


OWN_TABLES: dict[str, Contract] = {
    contract.name: published(contract)
    for contract in (
        JUDGED_BATCHES,
        CONSUMER_OFFSETS,
        DUPLICATES,
        EXPECTATION_RESULTS,
        GAPS,
        PRODUCERS,
        QUARANTINE,
        TRANSACTIONS,
        RUNS,
    )
}
"""Onceover's own tables by name; `runs` is published last."""
