"""A topic-partition, and the names of a topic's successive logs.

A topic that was deleted and created again has several logs, which share nothing but the name. The first has
the topic's name, the second is called `orders~2`, and so on: Kafka allows no `~` in topic names.
"""

from typing import NamedTuple

_LOG_NUMBER = "~"


class TopicPartition(NamedTuple):
    """One partition; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def in_kafka(self) -> "TopicPartition":
        """Its name in Kafka, for any of the topic's logs."""
        return TopicPartition(topic_of(self.topic), self.partition)


def topic_of(log: str) -> str:
    """The topic that a log belongs to: `orders` for `orders~2`."""
    return log.partition(_LOG_NUMBER)[0]


def log_number(log: str) -> int:
    """The number of the log among its topic's logs: 2 for `orders~2`."""
    return int(log.partition(_LOG_NUMBER)[2] or 1)


def log_name(topic: str, number: int) -> str:
    """The name of a topic's log; they count from 1."""
    return topic if number == 1 else f"{topic}{_LOG_NUMBER}{number}"
