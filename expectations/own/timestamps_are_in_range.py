"""Timestamps lie between the configured bounds, or there is none."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class TimestampsAreInRange(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "strange_timestamps"
    max_value: float = 0
    description: str = (
        "Record timestamps are plausible: neither before the configured date nor after the end of the "
        "run's day."
    )
