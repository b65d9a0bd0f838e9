"""The interface of a source kind.

A kind is one module with a `SourceReader`, listed in `registry`. It lists the objects of its source, and
determines the role and partition of each and who assigned the offsets. All later code works on manifest
entries: their `role` is the purpose of an object, their `origin` who assigned its batches' offsets.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import ClassVar, Protocol, TypeVar

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.kafka.formats.log_files import PartitionDir, parse_file_name, parse_partition_dir
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.manifest import NO_PARTITION, Manifest, ObjectRole, SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, key_problem, printable
from spark_jobs.lake.stores import open_source
from spark_jobs.sources.broker_files import LOG_DIRECTORY_FILES

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
REDPANDA_SEGMENT = re.compile(r"(?:^|/)[^/]+/\d+_\d+/\d+-\d+-v\d+\.log$")
"""`<topic>/<partition>_<revision>/<base offset>-<term>-v<version>.log`."""

Task = TypeVar("Task")
Summary = TypeVar("Summary")


class TaskRunner(Protocol):
    """Spark, as a source sees it."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    @property
    def shares_environment(self) -> bool:
        """Whether workers have the environment variables of this process."""

    def run_tasks(
        self, function: Callable[[Task], Summary], tasks: Sequence[Task], *, description: str = ""
    ) -> list[Summary]:
        """`function` of every task by Spark's workers, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An object of the source with its role, partition and date.

    `topic_id`, `copy` and `state_offset` are known where the layout has them, as in a manifest's entry.
    """

    source: Source
    stat: ObjectStat
    role: ObjectRole
    topic: str = ""
    partition: int = NO_PARTITION
    day: date | None = None
    topic_id: str = ""
    copy: str = ""
    state_offset: int = 0

    @property
    def path(self) -> str:
        return self.stat.key

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def where(self) -> tuple[str, str]:
        """Source and path."""
        return self.source.name, self.path


class Content(Protocol):
    """Where the bytes of listed objects come from: a store, or a view of one that decodes them."""

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        """The whole object in pieces, as `ObjectStore.chunks`."""

    def checksum(self, key: str, *, version: str = "") -> str:
        """A digest of all these bytes that the store keeps, empty if it keeps none."""

    def read_range(self, key: str, start: int, length: int, *, version: str = "") -> bytes:
        """Part of the object, as `ObjectStore.read_range`."""


@dataclass(frozen=True, slots=True)
class SourceReader(ABC):
    """One configured source as its kind reads it.

    `origin` shows who assigns offsets: batches of a `CLIENT` get theirs from the run, as from a leader;
    batches of `REPLICATION` have the broker's, and copies of one partition are copies of one log.
    """

    source: Source
    origin: ClassVar[AppendOrigin]
    expected: ClassVar[str] = "directories named <topic>-<partition>, such as orders-0"

    @property
    def is_updated_in_place(self) -> bool:
        """Whether every run takes the source as it is, instead of taking each of its objects once."""
        return False

    def open(self, settings: Settings) -> ObjectStore:
        """The store that holds the listed objects."""
        return open_source(settings, self.source)

    def bring_in(  # noqa: B027
        self, day: date, lake: ObjectStore, tasks: TaskRunner | None, settings: Settings | None = None
    ) -> None:
        """Writes the objects that a run of `day` will list, where the source does not have them as objects.

        Without `tasks` the driver does it.
        """

    def remarks(self, manifest: Manifest, settings: Settings) -> Iterator[str]:  # noqa: ARG002
        """What a person should know about the source's objects in a manifest."""
        yield from ()

    def content(self, settings: Settings) -> Content:
        """What to read the placed objects from."""
        return self.open(settings)

    def describe(self, placed: Sequence[Placed], settings: Settings) -> Iterator[Placed | StageProblem]:
        """Objects that no earlier run has taken, with what is known only from the source's bytes."""
        del settings
        yield from placed

    def objects(self, settings: Settings, first: date, last: date) -> Iterator[ObjectStat]:
        """At least every object that a run of a date from `first` to `last` may take."""
        store, dates, lookback = self.open(settings), self.source.dates, self.source.lookback_days
        if dates is None or lookback is None:
            yield from store.list()
            return
        for back in range((last - first).days + lookback, -1, -1):
            yield from store.list((last - timedelta(days=back)).strftime(dates))

    def place(self, stat: ObjectStat) -> Placed | StageProblem | None:
        """The role of a listed object, why it is set aside, or None if no run needs it."""
        if stat.problem:
            return self.set_aside(stat, SetAside.NOT_A_FILE, stat.problem)
        if problem := key_problem(stat.key):
            return self.set_aside(stat, SetAside.UNSAFE_NAME, problem)
        dates = self.source.dates
        day, below = split_date(stat.key, dates)
        if dates is not None and day is None:
            return self.set_aside(stat, SetAside.NO_DATE, f"its directories do not spell a date as {dates}")
        return self.place_below_date(stat, day, below.split("/"))

    @abstractmethod
    def place_below_date(
        self, stat: ObjectStat, day: date | None, parts: list[str]
    ) -> Placed | StageProblem | None:
        """`place` for an object with a legal key; `parts` is its path below the date's directory."""

    def why_unrecognised(self, examples: Sequence[str]) -> str:
        """The most likely mistake if no object is of a partition, by the paths of some objects."""
        return _likeliest_mistake(self.source, examples)

    def set_aside(self, stat: ObjectStat, reason: SetAside, why: str) -> StageProblem:
        """The object as one that the run leaves out."""
        detail = f"{self.source.name}: {printable(stat.key)}: set aside: {why}"
        return StageProblem(source=self.source.name, path=stat.key, reason=reason, detail=detail)


def partition_directory(parts: Sequence[str]) -> PartitionDir | None:
    """The `<topic>-<partition>` directory that an object with this path is in, if it is in one."""
    found = parse_partition_dir(parts[-2]) if len(parts) > 1 else None
    return found if found is not None and LEGAL_TOPIC.fullmatch(found.topic) else None


def split_date(path: str, layout: str | None) -> tuple[date | None, str]:
    """The date that the first directories spell, and the path below them."""
    if layout is None:
        return None, path
    depth = layout.count("/") + 1
    parts = path.split("/")
    match = _date_pattern(layout).fullmatch("/".join(parts[:depth]))
    try:
        day = date(int(match["Y"]), int(match["m"]), int(match["d"])) if match else None
    except ValueError:
        day = None  # the 31st of February
    return day, "/".join(parts[depth:])


@cache
def _date_pattern(layout: str) -> re.Pattern[str]:
    digits = {"%Y": r"(?P<Y>\d{4})", "%m": r"(?P<m>\d{2})", "%d": r"(?P<d>\d{2})"}
    return re.compile(
        "".join(digits.get(part, re.escape(part)) for part in re.split(r"(%.)", layout)), re.ASCII
    )


def _likeliest_mistake(source: Source, examples: Sequence[str]) -> str:
    paths = [split_date(path, source.dates)[1] for path in examples]
    names = [path.rpartition("/")[2] for path in paths]
    found = (parse_partition_dir(path.rpartition("/")[0].rpartition("/")[2]) for path in paths)
    topics = [directory.topic for directory in found if directory is not None]
    if any(map(REDPANDA_SEGMENT.search, paths)):
        return "this is a data directory of Redpanda, whose log format is not Kafka's"
    if source.dates is not None and all(split_date(path, source.dates)[0] is None for path in examples):
        return f"their directories do not spell a date as {source.dates}; see dates and root"
    if topics and not any(map(source.topics.takes, topics)):
        return f"they are of topics that the source leaves out, such as {printable(topics[0])}; see topics"
    if any("/" not in path and parse_file_name(path) is not None for path in paths):
        return "root is the directory of one partition; it should be the directory above, which holds it"
    if any(name in LOG_DIRECTORY_FILES for name in names):
        return "this is a log directory without partitions; another of the broker's log.dirs may hold them"
    return "none is in a <topic>-<partition> directory; root should be the directory that holds orders-0"
