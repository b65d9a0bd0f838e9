"""Sampled keys are where murmur2 puts them; other partitioners exist."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class KeysAreInTheirPartition(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "share_elsewhere"
    max_value: float = 0.01
    description: str = (
        "Records with a key are in the partition that Kafka's default partitioner chooses, so that equal"
        " keys stay in order."
    )
