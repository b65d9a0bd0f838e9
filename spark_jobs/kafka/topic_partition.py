"""A topic's partition, the unit that everything is grouped by.

A topic that was deleted and created anew has several logs, which share nothing but the name. The first one is
called as the topic, the second one `orders~2`, and so on: no topic of Kafka's has a `~` in its name.
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
        """What Kafka calls it, whichever of the topic's logs it belongs to."""
        return TopicPartition(topic_of(self.topic), self.partition)


def topic_of(log: str) -> str:
    """The topic that a log belongs to: `orders` for `orders~2`."""
    return log.partition(_LOG_NUMBER)[0]


def log_number(log: str) -> int:
    """Which of its topic's logs it is: 2 for `orders~2`."""
    return int(log.partition(_LOG_NUMBER)[2] or 1)


def log_name(topic: str, number: int) -> str:
    """The name of a topic's log; they count from 1."""
    return topic if number == 1 else f"{topic}{_LOG_NUMBER}{number}"
