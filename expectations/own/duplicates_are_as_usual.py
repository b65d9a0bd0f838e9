"""The share of duplicate batches lies at most so far above the median of earlier runs."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class DuplicatesAreAsUsual(ExpectColumnValuesToBeBetween):
    column: str = "duplicate_above_usual"
    max_value: float = 0.05
    description: str = ExpectationName.DUPLICATES_ARE_AS_USUAL.sentence
