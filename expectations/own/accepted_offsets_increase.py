"""(topic, partition, offset) of accepted batches is unique and increasing."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class AcceptedOffsetsIncrease(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "disordered_batches"
    max_value: float = 0
    description: str = (
        "Every accepted batch begins after the one before it ends, so no offset is given to two batches."
    )
