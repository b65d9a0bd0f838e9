"""What the Spark tasks of `materialise` receive and return: plans of files, and what was written."""

from dataclasses import dataclass, replace
from datetime import date

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.accepted_log import PlannedSegment, Segments
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.tables.materialise import RECORDS_FOLDER, REPLAYED_FOLDER
from spark_jobs.tables.table_names import folder_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """Where the bytes of a staged object are, and the source and path that it came from."""

    order: int
    store: str
    key: str
    version: str
    source: str
    path: str

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.source}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition: where its rows and outcomes are, and which offsets the run publishes.

    `batches` and `outcomes` are keys in the lake, empty without any; `held` names files of inherited rows, by
    ascending offset. `late` are first offsets of transactions whose held rows are published though they are
    before `first_offset`. `objects` hold the batches, `segments` of the accepted log are written from them.
    """

    partition: TopicPartition
    first_offset: int
    end_offset: int
    batches: str = ""
    outcomes: str = ""
    held: tuple[str, ...] = ()
    late: tuple[int, ...] = ()
    objects: tuple[ObjectPlace, ...] = ()
    segments: Segments = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """Neighbouring rows of a partition, and what the committed ones among them hold.

    The rows are those of a file of inherited rows that `held` names, or of the table `batches`. Objects are a
    range of orders. Of a capture, a chunk is a whole `segment` of the accepted log.
    """

    held: str
    first_row: int
    stop_row: int
    batches: int
    records: int
    bytes: int
    first_object: int
    last_object: int
    segment: PlannedSegment | None = None

    @property
    def cost(self) -> int:
        """Bytes that are read for it."""
        return self.segment.size if self.segment is not None else self.bytes

    def join(self, later: "RowChunk") -> "RowChunk":
        """Both, and the rows between them, of which none is shown."""
        return replace(
            self,
            stop_row=later.stop_row,
            batches=self.batches + later.batches,
            records=self.records + later.records,
            bytes=self.bytes + later.bytes,
            first_object=min(self.first_object, later.first_object),
            last_object=max(self.last_object, later.last_object),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChunks:
    """The chunks of one partition that go into one file."""

    plan: PartitionPlan
    chunks: tuple[RowChunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """One file of a topic's table, or several if it grows too large; `number` counts in the table.

    `replayed` records, which earlier runs did not publish, have files of their own.
    """

    topic: str
    number: int
    shares: tuple[PartitionChunks, ...] = ()
    replayed: bool = False

    @property
    def folder(self) -> str:
        """Where the topic's files are, among those of all topics."""
        return folder_name(self.topic)

    @property
    def name(self) -> str:
        """Names the plan among all of the run."""
        return f"{self.folder}-{'replayed-' if self.replayed else ''}{self.number:05d}"

    def path(self, part: int) -> str:
        """Where the plan's files go below the step's folder, the first one as part 0."""
        above = REPLAYED_FOLDER if self.replayed else RECORDS_FOLDER
        return f"{above}{self.folder}/{self.number:05d}-{part:03d}.parquet"

    def quarantine_path(self, part: int) -> str:
        """Where the plan's files of the table `quarantine` go."""
        return f"quarantine/{self.name}-{part:03d}.parquet"

    @property
    def cost(self) -> int:
        """Bytes that are read for it."""
        return sum(chunk.cost for share in self.shares for chunk in share.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What every Spark task of the step needs; `folder` is the key of the step's folder in the lake."""

    lake: ObjectStore
    folder: str
    settings: Settings
    run_date: date


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file for a table, and how many rows it has."""

    output: OutputFile
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """The result of a file plan; `unreadable` lists batches with records that are not published, if any.

    `unreadable_batches` counts those that cannot be decoded: a batch with `unfit` values is none of them.
    `quarantine` are files of that table, about `unfit` records and batches of earlier runs. `hidden` counts
    records before the first offset to publish, in a batch that reaches beyond it, `legacy` those of the older
    formats, whose headers have no count. `segments` are files of accepted logs.
    """

    plan: FilePlan
    files: tuple[TableFile, ...]
    quarantine: tuple[TableFile, ...]
    unreadable: TableFile | None
    unreadable_batches: int
    unreadable_records: int
    unfit: int
    hidden: int
    legacy: int
    segments: tuple[OutputFile, ...] = ()

    @property
    def records(self) -> int:
        return sum(file.rows for file in self.files)
