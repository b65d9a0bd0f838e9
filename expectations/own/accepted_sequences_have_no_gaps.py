"""Per producer and epoch the sequences of accepted batches follow one another."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class AcceptedSequencesHaveNoGaps(ExpectColumnValuesToBeBetween):
    column: str = "sequence_gaps"
    max_value: float = 0
    description: str = ExpectationName.ACCEPTED_SEQUENCES_HAVE_NO_GAPS.sentence
