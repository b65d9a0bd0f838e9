"""No partition is held behind offsets that no copy has; a failure does not stop the others."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class NoOffsetsAreMissing(ExpectColumnValuesToBeBetween):
    column: str = "gap_offsets"
    max_value: float = 0
    description: str = ExpectationName.NO_OFFSETS_ARE_MISSING.sentence
