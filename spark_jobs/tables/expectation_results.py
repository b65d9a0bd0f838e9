"""`expectation_results`: what the audit expected of a run, and what it found."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

EXPECTATION_RESULTS = Contract(
    name="expectation_results",
    meaning="Every expectation of every audited run: whether it was met, and if not, where.",
    columns=(
        Column("run_id", pa.string(), "the run that was audited"),
        Column("suite", pa.string(), "the table that the expectation is about"),
        Column("expectation", pa.string(), "name of the expectation"),
        Column("severity", pa.string(), "critical: a failure stops the run before publish; warning; or off"),
        Column("sentence", pa.string(), "what is expected, for people"),
        Column("success", pa.bool_(), "whether it was met; null if it was off, and not evaluated", True),
        Column("observed", pa.string(), "what was found"),
        Column("expected", pa.string(), "what the numbers are held against"),
        Column("examples", pa.list_(pa.string()), "some of the places where it was not met"),
    ),
    key=("run_id", "suite", "expectation"),
)
