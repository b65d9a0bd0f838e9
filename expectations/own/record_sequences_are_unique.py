"""(topic, partition, producer id, epoch, sequence) of rows is unique."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class RecordSequencesAreUnique(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "repeated_sequences"
    max_value: float = 0
    description: str = (
        "No record is there twice under another offset: a retry that a producer sent again counts once."
    )
