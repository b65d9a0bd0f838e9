"""(topic, partition, producer id, epoch, sequence) of rows is unique."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class RecordSequencesAreUnique(ExpectColumnValuesToBeBetween):
    column: str = "repeated_sequences"
    max_value: float = 0
    description: str = ExpectationName.RECORD_SEQUENCES_ARE_UNIQUE.sentence
