"""What a Spark task of `rebuild` receives and returns: small values, no batches."""

from dataclasses import dataclass, field

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.index_rows import IndexedCopy
from spark_jobs.lake.inherited_rows import InheritedObject
from spark_jobs.lake.manifest import ManifestEntry
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tables.rebuild import StateOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildJob:
    """One partition with objects in this run.

    `state` is what the run `run_id` left, empty on the partition's first run. `has_news` is false if
    earlier runs have seen every object. A broker's log begins at `first_offset` and has `snapshots`;
    its checkpoint holds `log_start_offset`. `seeds` are brokers' logs of a captured partition.
    `first_segments` are where the copies' first segments begin, by source and directory; `checkpoints` hold
    their leader epochs.
    `topic_id` is that of the staged `partition.metadata`, empty if unknown.
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
    """Where a state comes from: a snapshot up to its offset, then the replayed tail of the log."""

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
