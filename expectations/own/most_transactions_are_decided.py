"""The share of transactional batches whose outcome cannot be known is at most so large."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class MostTransactionsAreDecided(ExpectColumnValuesToBeBetween):
    column: str = "undecided_share"
    max_value: float = 0.5
    description: str = ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED.sentence
