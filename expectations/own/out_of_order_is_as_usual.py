"""The share of batches that came out of order lies at most so far above the median of earlier runs."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class OutOfOrderIsAsUsual(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "out_of_order_above_usual"
    max_value: float = 0.05
    description: str = (
        "The share of batches that came out of order is not much larger than it was in the last runs."
    )
