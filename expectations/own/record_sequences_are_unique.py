"""(topic, partition, producer id, epoch, sequence) of rows is unique."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering
from spark_jobs.config.audit import ExpectationName


class RecordSequencesAreUnique(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "repeated_sequences"
    max_value: float = 0
    description: str = ExpectationName.RECORD_SEQUENCES_ARE_UNIQUE.sentence
