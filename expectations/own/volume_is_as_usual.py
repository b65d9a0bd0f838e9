"""Rows per topic against the median of earlier runs, in either direction."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class VolumeIsAsUsual(ExpectColumnValuesToBeBetween):
    column: str = "volume_factor"
    max_value: float = 4
    description: str = ExpectationName.VOLUME_IS_AS_USUAL.sentence
