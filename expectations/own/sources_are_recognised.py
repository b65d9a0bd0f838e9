"""Some objects of a source are of partitions; else its root or kind is wrong."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class SourcesAreRecognised(ExpectColumnValuesToBeBetween):
    column: str = "is_unrecognised"
    max_value: float = 0
    description: str = ExpectationName.SOURCES_ARE_RECOGNISED.sentence
