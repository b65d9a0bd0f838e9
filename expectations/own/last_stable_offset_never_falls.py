"""The last stable offset is at least that of the run before."""

from great_expectations.expectations import ExpectColumnPairValuesAToBeGreaterThanB

from spark_jobs.config.audit import ExpectationName


class LastStableOffsetNeverFalls(ExpectColumnPairValuesAToBeGreaterThanB):
    column_A: str = "last_stable_offset"
    column_B: str = "last_stable_before"
    or_equal: bool = True
    description: str = ExpectationName.LAST_STABLE_OFFSET_NEVER_FALLS.sentence
