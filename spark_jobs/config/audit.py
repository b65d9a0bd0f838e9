"""Settings of the audit: expectations, their severities, and thresholds.

They decide whether the tables of a run are published, not what they hold. So they are not part of the run id,
and a failed expectation can be accepted without repeating the run.
"""

from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, create_model

from spark_jobs.config.fields import Count, Frozen

Share = Annotated[float, Field(ge=0, le=1)]
DAY_MS = 86_400_000


class Severity(StrEnum):
    """A failed critical expectation stops the run before `publish`; one that is off is not evaluated."""

    CRITICAL = "critical"
    WARNING = "warning"
    OFF = "off"


class ExpectationName(StrEnum):
    """Every expectation: its name, its default severity and its description.

    The name is also its key in `audit.severities`, its row in `expectation_results` and its case in
    `tests/expectations/test_judge.py`. A suite in `expectations/suites.py` names the numbers that it judges.
    """

    _value_: str
    default_severity: Severity
    sentence: str

    def __new__(cls, name: str, default_severity: Severity, sentence: str) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.default_severity = default_severity
        member.sentence = sentence
        return member

    SOURCES_HAVE_OBJECTS = (
        "sources_have_objects",
        Severity.CRITICAL,
        "Every source holds at least one object.",
    )
    SOURCES_ARE_RECOGNISED = (
        "sources_are_recognised",
        Severity.CRITICAL,
        "Among the objects of every source are some of Kafka's, in directories named <topic>-<partition>.",
    )
    SOURCES_BRING_NEW_OBJECTS = (
        "sources_bring_new_objects",
        Severity.WARNING,
        "Every source brings something that no earlier run has read, so copies and captures are up to date.",
    )
    PARTITIONS_ARE_STILL_THERE = (
        "partitions_are_still_there",
        Severity.CRITICAL,
        "Every partition that the last copy of a broker's log directory held is in this one, too.",
    )
    OBJECTS_CAN_BE_READ = (
        "objects_can_be_read",
        Severity.WARNING,
        (
            "Every object of a source can be read: none is denied by its store, and none is damaged. In a"
            " log, what follows such an object is held as behind any gap."
        ),
    )
    CAPTURED_OBJECTS_CAN_BE_READ = (
        "captured_objects_can_be_read",
        Severity.CRITICAL,
        (
            "Every object of a capture can be read. Without one of them later batches of its producers would"
            " be refused as out of order, for good."
        ),
    )
    EVERY_BATCH_HAS_ONE_VERDICT = (
        "every_batch_has_one_verdict",
        Severity.CRITICAL,
        (
            "Every batch that came in is accounted for: each has exactly one verdict, none is lost or judged"
            " twice."
        ),
    )
    ACCEPTED_OFFSETS_INCREASE = (
        "accepted_offsets_increase",
        Severity.CRITICAL,
        "Every accepted batch begins after the one before it ends, so no offset is given to two batches.",
    )
    ACCEPTED_OFFSETS_HAVE_NO_HOLES = (
        "accepted_offsets_have_no_holes",
        Severity.CRITICAL,
        (
            "No offset is missing between accepted batches and markers, except where a gap in the source was"
            " reported."
        ),
    )
    NO_OFFSETS_ARE_MISSING = (
        "no_offsets_are_missing",
        Severity.CRITICAL,
        (
            "Every copy continues at the offset published so far: no offsets are missing that retention, "
            "DeleteRecords or compaction do not explain. A failure holds the partition, not the run."
        ),
    )
    ACCEPTED_SEQUENCES_HAVE_NO_GAPS = (
        "accepted_sequences_have_no_gaps",
        Severity.CRITICAL,
        (
            "Every producer's accepted batches continue its sequence without a gap, so nothing that it sent "
            "in between is lost."
        ),
    )
    VERDICTS_ARE_THE_BROKERS_ANSWERS = (
        "verdicts_are_the_brokers_answers",
        Severity.WARNING,
        (
            "Where a capture has the broker's answers, every batch that the broker took is taken, and every"
            " batch that it refused is refused with the same error."
        ),
    )
    ROWS_ARE_THE_COMMITTED_RECORDS = (
        "rows_are_the_committed_records",
        Severity.CRITICAL,
        "Each topic's table gains exactly as many rows as the committed batches of the run hold records.",
    )
    RECORD_OFFSETS_INCREASE = (
        "record_offsets_increase",
        Severity.CRITICAL,
        "Rows of a partition ascend by offset, and no record is there twice.",
    )
    RECORD_SEQUENCES_ARE_UNIQUE = (
        "record_sequences_are_unique",
        Severity.CRITICAL,
        "No record is there twice under another offset: a retry that a producer sent again counts once.",
    )
    NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION = (
        "no_row_of_an_uncommitted_transaction",
        Severity.CRITICAL,
        "No row belongs to a transaction that was aborted or is not decided yet.",
    )
    EVERY_RECORD_IS_PUBLISHED_OR_A_DUPLICATE = (
        "every_record_is_published_or_a_duplicate",
        Severity.CRITICAL,
        (
            "Every record of a topic with a business id is either a row of the topic's table or of the table "
            "duplicates."
        ),
    )
    MOST_RECORDS_HAVE_AN_ID = (
        "most_records_have_an_id",
        Severity.WARNING,
        "Most records of a topic with a business id have one; otherwise the id is probably elsewhere.",
    )
    MOST_RECORDS_ARE_NO_DUPLICATES = (
        "most_records_are_no_duplicates",
        Severity.CRITICAL,
        (
            "Most records of a partition are not removed as duplicates; otherwise the declared business id is"
            " probably not unique. If an old input was really sent again, raise audit.duplicate_share."
        ),
    )
    TIMESTAMPS_ARE_IN_RANGE = (
        "timestamps_are_in_range",
        Severity.WARNING,
        (
            "Record timestamps are plausible: neither before the configured date nor long after the end of"
            " the run's date."
        ),
    )
    KEYS_ARE_IN_THEIR_PARTITION = (
        "keys_are_in_their_partition",
        Severity.WARNING,
        (
            "Records with a key are in the partition that the topic's partitioner of earlier runs chooses, so"
            " that equal keys stay in order."
        ),
    )
    TRANSACTIONS_ARE_WHOLE = (
        "transactions_are_whole",
        Severity.CRITICAL,
        "Every transaction appears whole: all of its partitions are published by the same run.",
    )
    MOST_TRANSACTIONS_ARE_DECIDED = (
        "most_transactions_are_decided",
        Severity.CRITICAL,
        "The sources determine the outcome of most transactions; the records of all others are held.",
    )
    PRODUCER_IDS_HAVE_ONE_OWNER = (
        "producer_ids_have_one_owner",
        Severity.CRITICAL,
        (
            "Every producer id belongs to one transactional id; otherwise transactions could be mistaken for"
            " one another."
        ),
    )
    STATE_CHAIN_IS_UNBROKEN = (
        "state_chain_is_unbroken",
        Severity.CRITICAL,
        "The run continues exactly where the previous one stopped, in every partition.",
    )
    LAST_STABLE_OFFSET_NEVER_FALLS = (
        "last_stable_offset_never_falls",
        Severity.CRITICAL,
        "What readers could see before stays visible: no partition's last stable offset goes back.",
    )
    MOST_BATCHES_ARE_ACCEPTED = (
        "most_batches_are_accepted",
        Severity.CRITICAL,
        (
            "Of the batches that are new in this run, most are accepted; otherwise the source is probably not"
            " of the kind that the configuration names."
        ),
    )
    DUPLICATES_ARE_AS_USUAL = (
        "duplicates_are_as_usual",
        Severity.WARNING,
        "The share of duplicate batches is not much larger than it was in the last runs.",
    )
    OUT_OF_ORDER_IS_AS_USUAL = (
        "out_of_order_is_as_usual",
        Severity.WARNING,
        "The share of batches that came out of order is not much larger than it was in the last runs.",
    )
    CORRUPT_IS_AS_USUAL = (
        "corrupt_is_as_usual",
        Severity.WARNING,
        "The share of corrupt batches is not much larger than it was in the last runs.",
    )
    VOLUME_IS_AS_USUAL = (
        "volume_is_as_usual",
        Severity.WARNING,
        "Each topic brings about as many records as in the last runs, not many times more or fewer.",
    )


if TYPE_CHECKING:
    Severities = Frozen
else:
    Severities = create_model(
        "Severities",
        __base__=Frozen,
        __doc__="The severity of each expectation: a key per expectation, with its default.",
        **{each.value: (Severity, each.default_severity) for each in ExpectationName},
    )


class AuditSettings(Frozen):
    """What counts as too far, and what stops a run.

    - Usual values are medians of the last `history_runs` runs, once there are `history_least` of them. A
      share may exceed its median by `share_above_usual`. The volume of a topic may be `volume_factor` times
      as large or as small as its median.
    - Timestamps must be after `earliest_timestamp`, and at most `timestamp_ahead_ms` after the end of the
      run date. The default is a day: the copy is taken on the next day and has records of that day.
    - `key_sample` keys of each partition are compared with the partitioner of earlier runs. A share of
      `keys_elsewhere` may be in another partition.
    - A share of `refused_share` of a topic's new batches may be refused or corrupt. A share of
      `undecided_share` of all transactional batches may have no known outcome. Fewer than `share_least`
      batches are not checked.
    - Where `dedup` declares a business id, a share of `without_id` of a partition's records may have none,
      and a share of `duplicate_share` may be duplicates. Fewer than `share_least` records are not checked.
    - `examples` is how many places of a failure are kept.
    """

    severities: Severities = Severities()
    history_runs: Annotated[Count, Field(ge=1, le=366)] = 28
    history_least: Annotated[Count, Field(ge=1)] = 7
    share_above_usual: Share = 0.05
    refused_share: Share = 0.5
    undecided_share: Share = 0.5
    share_least: Annotated[Count, Field(ge=1)] = 20
    volume_factor: Annotated[float, Field(gt=1)] = 4.0
    earliest_timestamp: date = date(2000, 1, 1)
    timestamp_ahead_ms: Annotated[Count, Field(ge=0)] = DAY_MS
    key_sample: Annotated[Count, Field(ge=0)] = 200
    keys_elsewhere: Share = 0.01
    without_id: Share = 0.5
    duplicate_share: Share = 0.5
    examples: Annotated[Count, Field(ge=1, le=100)] = 5

    def severity(self, name: ExpectationName) -> Severity:
        """How a failure of the expectation is taken."""
        found: Severity = getattr(self.severities, name)
        return found

    @property
    def earliest_ms(self) -> int:
        """The earliest timestamp that is in range, in ms since 1970."""
        return int(datetime.combine(self.earliest_timestamp, time(), UTC).timestamp()) * 1000
