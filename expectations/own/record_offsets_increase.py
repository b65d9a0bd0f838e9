"""(topic, partition, offset) of rows is unique and increasing."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class RecordOffsetsIncrease(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "disordered_rows"
    max_value: float = 0
    description: str = "Rows of a partition ascend by offset, and no record is there twice."
