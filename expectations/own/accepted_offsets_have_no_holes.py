"""Offsets are contiguous but for reported gaps; compacted topics have holes by design."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class AcceptedOffsetsHaveNoHoles(ExpectColumnValuesToBeBetween):
    column: str = "missing_offsets"
    max_value: float = 0
    description: str = ExpectationName.ACCEPTED_OFFSETS_HAVE_NO_HOLES.sentence
