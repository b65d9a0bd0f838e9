"""A transaction is published on all of its partitions in one run, or on none."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class TransactionsAreWhole(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "torn_transactions"
    max_value: float = 0
    description: str = "Every transaction appears whole: all of its partitions are published by the same run."
