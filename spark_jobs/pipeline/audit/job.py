"""What a Spark task of `audit` receives: small values, no rows."""

from dataclasses import dataclass, field

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.audit.partitioners import Fits
from spark_jobs.pipeline.audit.sequences import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigests:
    """State files of a partition, empty for none.

    `previous` is of the run before, `at_start` and `after` are of this run.

    `admitted_end` is the log end offset by `admit`; None if `admit` had no batches of the partition.
    `is_behind_gap`: the staged log begins after the end of `previous`, so a snapshot gave the rest.
    """

    previous: str = ""
    at_start: str = ""
    after: str = ""
    admitted_end: int | None = None
    is_behind_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInputs:
    """One partition: keys of its files in the lake, empty for none, and its numbers in the run.

    The run publishes committed records from `first_offset` to before `end_offset`, and those of the
    transactions that began at one of `late`; the run before published up to `published_before`. It decodes
    `replayed_records` of earlier runs again. A compacted log has holes by design, others below
    `cleaned_offset`. `passed_gaps` are first and last offsets that no copy had and the run published past;
    `gap_offsets` are missing from the log and held up `behind_gaps` batches. Its broker may have expired
    producers that sent nothing newer than `expired_before`, in ms since 1970.
    """

    partition: TopicPartition
    indexed: int = 0
    start_offset: int = 0
    first_offset: int = 0
    end_offset: int = 0
    published_before: int = 0
    batches: str = ""
    outcomes: str = ""
    held: tuple[str, ...] = ()
    late: tuple[int, ...] = ()
    passed_gaps: tuple[tuple[int, int], ...] = ()
    gap_offsets: int = 0
    behind_gaps: int = 0
    cleaned_offset: int = 0
    is_compacted: bool = False
    expired_before: int = NEVER
    unreadable_records: int = 0
    unfit_records: int = 0
    replayed_records: int = 0
    states: StateDigests = StateDigests()
    last_stable_before: int = 0
    last_stable_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChecks:
    """Limits of timestamps in ms since 1970, and how many keys to sample per partition."""

    earliest_ms: int
    latest_ms: int
    key_sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """Neighbouring partitions of one topic, and the files that hold the topic's records.

    Rows of `replayed` files are of earlier runs, so they do not continue those of `records`.

    `partition_count` is how many partitions the topic has at least, and `fits` what has placed its keys in
    earlier runs. Unless transactions are to be whole, the end of what is published may cut through one.
    """

    inputs: tuple[PartitionInputs, ...]
    records: tuple[str, ...]
    replayed: tuple[str, ...] = ()
    partition_count: int
    fits: Fits = field(default_factory=dict)
    whole_transactions: bool
    lake: ObjectStore
    bounds: RecordChecks

    @property
    def topic(self) -> str:
        return self.inputs[0].partition.topic
