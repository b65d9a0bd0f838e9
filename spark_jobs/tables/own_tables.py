"""Onceover's own tables, in the form in which readers get them."""

from spark_jobs.tables.consumer_offsets import CONSUMER_OFFSETS
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.expectation_results import EXPECTATION_RESULTS
from spark_jobs.tables.gaps import GAPS
from spark_jobs.tables.judged_batches import JUDGED_BATCHES
from spark_jobs.tables.producers import PRODUCERS
from spark_jobs.tables.published import published
from spark_jobs.tables.quarantine import QUARANTINE
from spark_jobs.tables.runs import RUNS
from spark_jobs.tables.transactions import TRANSACTIONS

OWN_TABLES: dict[str, Contract] = {
    contract.name: published(contract)
    for contract in (
        JUDGED_BATCHES,
        CONSUMER_OFFSETS,
        EXPECTATION_RESULTS,
        GAPS,
        PRODUCERS,
        QUARANTINE,
        TRANSACTIONS,
        RUNS,
    )
}
"""By name; `runs` is published last."""
