"""The share of refused and corrupt batches among the new ones is at most so large."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering
from spark_jobs.config.audit import ExpectationName


class MostBatchesAreAccepted(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "refused_share"
    max_value: float = 0.5
    description: str = ExpectationName.MOST_BATCHES_ARE_ACCEPTED.sentence
