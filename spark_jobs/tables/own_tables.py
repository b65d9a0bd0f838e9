"""Onceover's own tables, in the form in which readers get them."""

from spark_jobs.tables.contract import Contract
from spark_jobs.tables.published import published
from spark_jobs.tables.runs import RUNS

OWN_TABLES: dict[str, Contract] = {contract.name: published(contract) for contract in (RUNS,)}
"""By name; `runs` is published last."""
