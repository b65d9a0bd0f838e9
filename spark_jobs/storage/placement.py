"""What a source's object is, by its path: `<root>/<date>/…/<topic>-<partition>/<object>` (facts §1.1)."""

import re
from dataclasses import dataclass
from datetime import date

from spark_jobs.config.sources import Source, SourceKind
from spark_jobs.protocol.log_files import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_DIR,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileSuffix,
    LogFileKind,
    PartitionDir,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.storage.keys import key_problem, printable
from spark_jobs.storage.manifest import NO_PARTITION, ObjectRole, SetAside, StageProblem
from spark_jobs.storage.object_store import ObjectStat

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
HIDDEN = (".", "_")
"""How names begin that writers of data sets use for themselves, such as `_SUCCESS` or `.part`."""
COPY_TIMES = "onceover-copy.json"
LOG_DIRECTORY_FILES = frozenset(
    {
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        REPLICATION_OFFSET_CHECKPOINT,
        CLEANER_OFFSET_CHECKPOINT,
        CLEAN_SHUTDOWN_FILE,
        META_PROPERTIES,
    }
)
PARTITION_FILES = {
    LEADER_EPOCH_CHECKPOINT: ObjectRole.LEADER_EPOCHS,
    PARTITION_METADATA: ObjectRole.PARTITION_METADATA,
}
SEGMENT_FILES = {
    (LogFileKind.LOG, None): ObjectRole.LOG,
    (LogFileKind.LOG, FileSuffix.SWAP): ObjectRole.SWAP,
    (LogFileKind.SNAPSHOT, None): ObjectRole.SNAPSHOT,
    (LogFileKind.TXN_INDEX, None): ObjectRole.TXN_INDEX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An object that belongs to the source: what it is for, of which partition and which date."""

    source: Source
    stat: ObjectStat
    role: ObjectRole
    topic: str = ""
    partition: int = NO_PARTITION
    day: date | None = None

    @property
    def path(self) -> str:
        return self.stat.key

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def place(source: Source, stat: ObjectStat) -> Placed | StageProblem | None:
    """What the object is, why it must be set aside, or None if it is none of the source's business."""
    if stat.problem:
        return _aside(source, stat, SetAside.NOT_A_FILE, stat.problem)
    if problem := key_problem(stat.key):
        return _aside(source, stat, SetAside.UNSAFE_NAME, problem)
    day, below = split_date(stat.key, source.dates)
    if source.dates is not None and day is None:
        return _aside(
            source, stat, SetAside.NO_DATE, f"its directories do not spell a date as {source.dates}"
        )
    placer = _place_capture if source.kind is SourceKind.CAPTURE else _place_broker_log
    return placer(source, stat, day, below.split("/"))


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


def _date_pattern(layout: str) -> re.Pattern[str]:
    digits = {"%Y": r"(?P<Y>\d{4})", "%m": r"(?P<m>\d{2})", "%d": r"(?P<d>\d{2})"}
    return re.compile(
        "".join(digits.get(part, re.escape(part)) for part in re.split(r"(%.)", layout)), re.ASCII
    )


def _place_capture(
    source: Source, stat: ObjectStat, day: date | None, parts: list[str]
) -> Placed | StageProblem | None:
    if parts[-1].startswith(HIDDEN):
        return None
    found = _partition_of(parts)
    if found is None or found.suffix is not None:
        return _aside(
            source, stat, SetAside.NO_PARTITION, "it does not stand in a <topic>-<partition> directory"
        )
    if not source.topics.takes(found.topic):
        return None
    return Placed(
        source=source,
        stat=stat,
        role=ObjectRole.CAPTURE,
        topic=found.topic,
        partition=found.partition,
        day=day,
    )


def _place_broker_log(source: Source, stat: ObjectStat, day: date | None, parts: list[str]) -> Placed | None:
    """A broker's directory holds much that is derived or on its way out: that is left where it is."""
    if parts[-1] in LOG_DIRECTORY_FILES:  # by name first: a log directory may itself be called `broker-1`
        return Placed(source=source, stat=stat, role=ObjectRole.LOG_DIRECTORY, day=day)
    if parts[-1] == COPY_TIMES:
        return Placed(source=source, stat=stat, role=ObjectRole.COPY_TIMES, day=day)
    found, role = _partition_of(parts), _role_in_partition(parts[-1])
    if found is None or role is None or found.suffix is not None or parts[-2] == CLUSTER_METADATA_DIR:
        return None
    if not source.topics.takes(found.topic):
        return None
    return Placed(source=source, stat=stat, role=role, topic=found.topic, partition=found.partition, day=day)


def _partition_of(parts: list[str]) -> PartitionDir | None:
    found = parse_partition_dir(parts[-2]) if len(parts) > 1 else None
    return found if found is not None and LEGAL_TOPIC.fullmatch(found.topic) else None


def _role_in_partition(name: str) -> ObjectRole | None:
    file = parse_file_name(name)
    return PARTITION_FILES.get(name) if file is None else SEGMENT_FILES.get((file.kind, file.suffix))


def _aside(source: Source, stat: ObjectStat, reason: SetAside, why: str) -> StageProblem:
    detail = f"{source.name}: {printable(stat.key)}: set aside: {why}"
    return StageProblem(source=source.name, path=stat.key, reason=reason, detail=detail)
