"""The share of batches that came out of order lies at most so far above the median of earlier runs."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class OutOfOrderIsAsUsual(ExpectColumnValuesToBeBetween):
    column: str = "out_of_order_above_usual"
    max_value: float = 0.05
    description: str = ExpectationName.OUT_OF_ORDER_IS_AS_USUAL.sentence
