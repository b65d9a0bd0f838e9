"""What a reader of a log refuses, and what it warns of."""

from spark_jobs.kafka.errors import OnceoverError


class NotKafka(OnceoverError):
    """A path without Kafka data; the message names what was expected."""


class Undecided(OnceoverError):
    """Records of a transaction whose marker is not in what was given to read."""


class UnknownOption(OnceoverError, ValueError):
    """An argument or option with a name or value that does not exist; the message lists those that do."""


class TornTail(UserWarning):
    """The log ends with bytes that are no whole batch, as after a crash: they are left out."""


class TierEnds(UserWarning):
    """The log goes on where its uploads to tiered storage end, or lacks some of them."""
