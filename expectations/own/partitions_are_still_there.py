"""No partition of the last copy of a whole log directory is gone."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class PartitionsAreStillThere(ExpectColumnValuesToBeBetween):
    column: str = "vanished_partitions"
    max_value: float = 0
    description: str = ExpectationName.PARTITIONS_ARE_STILL_THERE.sentence
