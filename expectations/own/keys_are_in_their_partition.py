"""Sampled keys are where the partitioner puts them that was established in earlier runs."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class KeysAreInTheirPartition(ExpectColumnValuesToBeBetween):
    column: str = "share_elsewhere"
    max_value: float = 0.01
    description: str = ExpectationName.KEYS_ARE_IN_THEIR_PARTITION.sentence
