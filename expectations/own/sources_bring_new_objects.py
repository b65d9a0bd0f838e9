"""Some object of a source is new; a copy that was not made again has none."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class SourcesBringNewObjects(ExpectColumnValuesToBeBetween):
    column: str = "is_stale"
    max_value: float = 0
    description: str = ExpectationName.SOURCES_BRING_NEW_OBJECTS.sentence
