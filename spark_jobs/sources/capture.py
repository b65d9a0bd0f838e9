"""`kind: capture`: batches as producers sent them, `<root>/<date>/…/<topic>-<partition>/<object>`."""

from datetime import date
from typing import ClassVar

from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.manifest import ObjectRole, SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStat
from spark_jobs.sources.source import Placed, SourceReader, partition_directory

HIDDEN = (".", "_")
"""Prefixes of names that writers of data sets use internally, such as `_SUCCESS` or `.part`."""
HIDDEN_ANSWERS, ANSWERS = "_", "answers.jsonl"
"""`_<object>.answers.jsonl` beside `<object>.batches` has the broker's answers to its batches."""


def is_answers(name: str) -> bool:
    """Whether an object of this name has a broker's answers."""
    return name.startswith(HIDDEN_ANSWERS) and name.endswith(f".{ANSWERS}")


def answered_object(path: str) -> str:
    """The path of the object whose batches were answered, without its extension."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/{name.removeprefix(HIDDEN_ANSWERS).removesuffix(f'.{ANSWERS}')}"


class Capture(SourceReader):
    """Every object in a partition's directory holds batches; objects of a partition arrive in name order."""

    origin: ClassVar[AppendOrigin] = AppendOrigin.CLIENT

    def place_below_date(
        self, stat: ObjectStat, day: date | None, parts: list[str]
    ) -> Placed | StageProblem | None:
        found = partition_directory(parts)
        if is_answers(parts[-1]) and found is not None and self.source.topics.takes(found.topic):
            return Placed(source=self.source, stat=stat, role=ObjectRole.ANSWERS, day=day)
        if parts[-1].startswith(HIDDEN):
            return None
        if found is None or found.suffix is not None:
            return self.set_aside(stat, SetAside.NO_PARTITION, "it is not in a <topic>-<partition> directory")
        if not self.source.topics.takes(found.topic):
            return None
        return Placed(
            source=self.source,
            stat=stat,
            role=ObjectRole.CAPTURE,
            topic=found.topic,
            partition=found.partition,
            day=day,
        )
