"""The share of corrupt batches lies at most so far above the median of earlier runs."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class CorruptIsAsUsual(ExpectColumnValuesToBeBetween):
    column: str = "corrupt_above_usual"
    max_value: float = 0.05
    description: str = ExpectationName.CORRUPT_IS_AS_USUAL.sentence
