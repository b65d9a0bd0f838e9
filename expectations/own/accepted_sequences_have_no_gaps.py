"""Per producer and epoch the sequences of accepted batches follow one another."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class AcceptedSequencesHaveNoGaps(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "sequence_gaps"
    max_value: float = 0
    description: str = (
        "Every producer's accepted batches continue its sequence without a gap, so nothing that it sent "
        "in between is lost."
    )
