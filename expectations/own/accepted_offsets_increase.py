"""(topic, partition, offset) of accepted batches is unique and increasing."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class AcceptedOffsetsIncrease(ExpectColumnValuesToBeBetween):
    column: str = "disordered_batches"
    max_value: float = 0
    description: str = ExpectationName.ACCEPTED_OFFSETS_INCREASE.sentence
