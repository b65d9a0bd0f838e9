"""(topic, partition, offset) of rows is unique and increasing."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class RecordOffsetsIncrease(ExpectColumnValuesToBeBetween):
    column: str = "disordered_rows"
    max_value: float = 0
    description: str = ExpectationName.RECORD_OFFSETS_INCREASE.sentence
