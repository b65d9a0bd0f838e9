"""A transaction is published on all of its partitions in one run, or on none."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class TransactionsAreWhole(ExpectColumnValuesToBeBetween):
    column: str = "torn_transactions"
    max_value: float = 0
    description: str = ExpectationName.TRANSACTIONS_ARE_WHOLE.sentence
