"""A topic's partition, the unit that everything is grouped by."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
