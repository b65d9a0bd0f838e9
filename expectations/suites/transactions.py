"""`transactions`: each is published whole or not at all, and each producer id has one owner."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.producer_ids_have_one_owner import ProducerIdsHaveOneOwner
from expectations.own.transactions_are_whole import TransactionsAreWhole
from expectations.suite import Suite
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per file of the table: transactions are divided by producer id."""
    return facts.transactions


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (TransactionsAreWhole(), ProducerIdsHaveOneOwner())


TRANSACTIONS = Suite(
    name="transactions", about=("file",), frame=frame, expectations=expectations, shown=("examples",)
)
