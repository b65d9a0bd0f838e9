"""A source has objects; one that is divided by date may have a quiet day."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class SourcesHaveObjects(ExpectColumnValuesToBeBetween):
    column: str = "is_empty"
    max_value: float = 0
    description: str = ExpectationName.SOURCES_HAVE_OBJECTS.sentence
