"""The share of refused and corrupt batches among the new ones is at most so large."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class MostBatchesAreAccepted(ExpectColumnValuesToBeBetween):
    column: str = "refused_share"
    max_value: float = 0.5
    description: str = ExpectationName.MOST_BATCHES_ARE_ACCEPTED.sentence
