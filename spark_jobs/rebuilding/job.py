"""What a worker of `rebuild` is asked, and what it answers."""

from dataclasses import dataclass, field

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.index_files import IndexedCopy
from spark_jobs.storage.inherited_rows import InheritedObject
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.tables.rebuild import StateOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildJob:
    """One partition with objects in this run.

    `state` is what the run `run_id` handed on, empty on the partition's first run. `has_news` is false if
    earlier runs have seen every object. A broker's log begins at `first_offset`, with `log_start_offset`
    as its checkpoint says, and has `snapshots`. `seeds` are brokers' logs of a captured partition.
    `first_segments` are where the copies' first segments begin, by source and directory; `checkpoints` hold
    their leader epochs.
    `topic_id` is what the staged `partition.metadata` says, empty if unknown.
    """

    partition: TopicPartition
    origin: AppendOrigin
    state: str = ""
    run_id: str = ""
    has_news: bool = True
    first_offset: int = 0
    log_start_offset: int = 0
    seeds: tuple[IndexedCopy, ...] = ()
    snapshots: tuple[ManifestEntry, ...] = ()
    first_segments: dict[tuple[str, str], int] = field(default_factory=dict)
    checkpoints: tuple[ManifestEntry, ...] = ()
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTask:
    """Some partitions for one worker; `day_start` is when the run's day begins, in ms since 1970."""

    jobs: tuple[RebuildJob, ...]
    lake: ObjectStore
    settings: Settings
    day_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a state was made of: a snapshot up to its offset, then the tail replayed."""

    origin: StateOrigin
    snapshot: str | None = None
    snapshot_offset: int | None = None
    tail_first_offset: int | None = None
    tail_last_offset: int | None = None
    skipped: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The state file that a partition starts from, where it came from, and objects of parked batches."""

    partition: TopicPartition
    state: str
    run_id: str
    provenance: Provenance
    producers: int
    expired: int
    inherited: tuple[InheritedObject, ...] = field(default=())
