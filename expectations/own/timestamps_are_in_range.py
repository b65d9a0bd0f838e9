"""Timestamps lie between the configured bounds, or there is none."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class TimestampsAreInRange(ExpectColumnValuesToBeBetween):
    column: str = "strange_timestamps"
    max_value: float = 0
    description: str = ExpectationName.TIMESTAMPS_ARE_IN_RANGE.sentence
