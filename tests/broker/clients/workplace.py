"""Where clients work: the broker, its topics, what they note, and when to stop."""

import threading
from dataclasses import dataclass, field
from random import Random

from tests.broker.clients.journal import Journal, Sent

TOPICS = {"pay": (3, "CreateTime"), "out": (2, "CreateTime"), "lat": (1, "LogAppendTime")}
INPUTS = ("pay", "lat")
"""Topics that producers write to by themselves; the other one is written by who reads them."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass
class Workplace:
    """Shared by all clients of a trial."""

    address: str
    seed: int
    journal: Journal = field(default_factory=Journal)
    stopped: threading.Event = field(default_factory=threading.Event)

    def random(self, name: str) -> Random:
        return Random(f"{self.seed}-{name}")


def some_records(random: Random, name: str) -> list[Sent]:
    """One to twelve records for random partitions, each value its own."""
    found = []
    for number in range(random.randrange(1, 13)):
        topic = random.choice(["pay", "pay", "pay", "lat"])
        padding = "x" * random.randrange(80)
        value = f"{name}:{number}:{padding}".encode()
        found.append((topic, random.randrange(TOPICS[topic][0]), value))
    return found


def some_key(random: Random) -> bytes | None:
    return random.choice([None, b"", b"k%d" % random.randrange(20)])


def some_headers(random: Random) -> list[tuple[str, str | bytes | None]]:
    return [("h", random.choice([None, b"", b"v"])) for _ in range(random.randrange(3))]
