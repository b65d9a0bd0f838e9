"""What a Spark task of `admit` receives and returns: small values, no batches."""

from dataclasses import dataclass, field
from datetime import date

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import Segments
from spark_jobs.lake.index_rows import IndexedCopy
from spark_jobs.lake.manifest import ManifestEntry, Truncation
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.admit.gaps import GapRow
from spark_jobs.sources.inheritance import Reach

PARTITION_COST = 4096
"""What opening a partition and writing its files costs, in batches that could be judged meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionJob:
    """One partition: its state file at the start, the copies to admit, and unused copies.

    `unused` are brokers' logs of a captured partition. `objects` are the staged objects that hold batches;
    those of earlier runs have negative orders. `checkpoints` hold the leader epochs of a broker's log.
    `markers` is the key of a file of the table `markers`, empty if the capture brings its own or none
    are known. `truncation` is the log of a capture that another run wrote.

    Of a broker's log: `cleaned_offset` is the end of what its cleaner has compacted. `log_start_offset` is
    from the broker's checkpoint. `staged_copies` counts the copies, including those that are inherited as a
    whole. `inherits` is true if earlier runs have read some segments. `staged_end_offset` is the least end
    offset that the names of all segments allow. `first_segments` are the base offsets of the copies' first
    segments, by source and directory. `txn_indexes` were uploaded with segments to tiered storage.
    """

    partition: TopicPartition
    origin: AppendOrigin
    state: str
    copies: tuple[IndexedCopy, ...]
    unused: tuple[IndexedCopy, ...] = ()
    objects: tuple[ManifestEntry, ...] = ()
    checkpoints: tuple[ManifestEntry, ...] = ()
    markers: str = ""
    truncation: Truncation | None = None
    cleaned_offset: int = 0
    log_start_offset: int = 0
    staged_copies: int = 1
    inherits: bool = False
    staged_end_offset: int = 0
    first_segments: dict[tuple[str, str], int] = field(default_factory=dict)
    txn_indexes: tuple[ManifestEntry, ...] = ()

    @property
    def cost(self) -> int:
        """What admitting it takes, in batches that could be judged meanwhile."""
        return PARTITION_COST + sum(copy.rows for copy in (*self.copies, *self.unused))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitTask:
    """Some partitions for one worker; `folder` is the key of the step's folder in the lake."""

    number: int
    jobs: tuple[PartitionJob, ...]
    lake: ObjectStore
    folder: str
    settings: Settings
    day: date

    @property
    def cost(self) -> int:
        return sum(job.cost for job in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedBatches:
    """The number of batches of a broker's log at impossible offsets, and the first of them."""

    count: int
    object_order: int
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedPartition:
    """The result of one partition: counts, offsets, the digest of its state, and its files.

    Among the rows, `inherited` ones come from earlier runs and `markers` from the coordinator's log. A
    broker's log was staged up to `staged_end_offset`; for a capture that is its log end. `segments` are those
    of a capture's accepted log that are still to be written. `reaches` are those of a broker's segments, by
    object order. `txn_index_differences` are sentences.
    """

    partition: TopicPartition
    origin: AppendOrigin
    verdicts: dict[Verdict, int]
    inherited: int
    markers: int
    start_offset: int
    end_offset: int
    log_start_offset: int
    first_unstable_offset: int | None
    leader_epoch: int
    producers: int
    gaps: int
    cleaned_offset: int
    critical: int
    staged_end_offset: int
    transactions: int
    state: str
    batches: str
    outputs: tuple[OutputFile, ...] = ()
    misplaced: MisplacedBatches | None = None
    segments: Segments = ()
    gap_rows: tuple[GapRow, ...] = ()
    reaches: dict[int, Reach] = field(default_factory=dict)
    txn_index_differences: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitSummary:
    """What a task did: its partitions, and the files that they share, empty if there was nothing to write."""

    partitions: tuple[AdmittedPartition, ...]
    transactions: str = ""
    outputs: tuple[OutputFile, ...] = field(default=())
