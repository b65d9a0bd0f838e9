"""What a worker that closes partitions' nights is asked, and what it answers."""

from dataclasses import dataclass

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.held_rows import NightBatches
from spark_jobs.resolving.positions import Positions
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import OutputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryJob:
    """One partition: what waited before, its batches tonight, how far it goes, and the night's cut.

    `waiting` and `offsets` are digests of what earlier nights left, empty without any. `checkpointed` is the
    high watermark that a broker wrote down.
    """

    number: int
    partition: TopicPartition
    waiting: str
    has_markers: bool
    batches: NightBatches
    log_start_offset: int
    log_end_offset: int
    cut: int
    checkpointed: int | None = None
    offsets: str = ""

    @property
    def is_internal(self) -> bool:
        return self.partition.topic in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryTask:
    """Some partitions for one worker; `concluded` are keys of files with the parts of bin `number`."""

    number: int
    jobs: tuple[CarryJob, ...]
    concluded: tuple[str, ...]
    lake: ObjectStore
    folder: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedPartition:
    """What became of one partition: the range to publish, positions, files, digests of what waits.

    `held` and `late` are of what earlier nights left for this one, `held_batches` is left for the next.
    """

    partition: TopicPartition
    first_offset: int
    end_offset: int
    held: tuple[str, ...]
    late: tuple[int, ...]
    positions: Positions
    undecided: int
    held_batches: int
    unsettled: int
    waiting: str
    outcomes: OutputFile | None = None
    offsets: str = ""
    consumer_offsets: OutputFile | None = None
    problems: tuple[str, ...] = ()
