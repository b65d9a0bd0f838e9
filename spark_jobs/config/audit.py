"""How the audit judges a night: what blocks publishing, and how far from the usual is too far.

None of it changes what a run's tables hold, only whether they are published: so it is no part of what names
a run, and a finding can be accepted without repeating the night.
"""

from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from spark_jobs.config.fields import Count, Frozen

Share = Annotated[float, Field(ge=0, le=1)]
HOUR_MS = 3_600_000


class Severity(StrEnum):
    """A failed critical expectation stops the run before `publish`; a warning is only told."""

    CRITICAL = "critical"
    WARNING = "warning"


class ExpectationName(StrEnum):
    """Every expectation: also its file, its row in `expectation_results` and its test."""

    EVERY_BATCH_HAS_ONE_VERDICT = "every_batch_has_one_verdict"
    ACCEPTED_OFFSETS_INCREASE = "accepted_offsets_increase"
    ACCEPTED_OFFSETS_HAVE_NO_HOLES = "accepted_offsets_have_no_holes"
    ACCEPTED_SEQUENCES_HAVE_NO_GAPS = "accepted_sequences_have_no_gaps"
    ROWS_ARE_THE_COMMITTED_RECORDS = "rows_are_the_committed_records"
    RECORD_OFFSETS_INCREASE = "record_offsets_increase"
    RECORD_SEQUENCES_ARE_UNIQUE = "record_sequences_are_unique"
    NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION = "no_row_of_an_uncommitted_transaction"
    TIMESTAMPS_ARE_IN_RANGE = "timestamps_are_in_range"
    KEYS_ARE_IN_THEIR_PARTITION = "keys_are_in_their_partition"
    TRANSACTIONS_ARE_WHOLE = "transactions_are_whole"
    PRODUCER_IDS_HAVE_ONE_OWNER = "producer_ids_have_one_owner"
    STATE_CHAIN_IS_UNBROKEN = "state_chain_is_unbroken"
    LAST_STABLE_OFFSET_NEVER_FALLS = "last_stable_offset_never_falls"
    DUPLICATES_ARE_AS_USUAL = "duplicates_are_as_usual"
    OUT_OF_ORDER_IS_AS_USUAL = "out_of_order_is_as_usual"
    CORRUPT_IS_AS_USUAL = "corrupt_is_as_usual"
    VOLUME_IS_AS_USUAL = "volume_is_as_usual"


class Severities(Frozen):
    """How a failure of each expectation is taken.

    Clocks go wrong, partitioners differ, traffic changes: reasons to look, not to withhold a night.
    """

    every_batch_has_one_verdict: Severity = Severity.CRITICAL
    accepted_offsets_increase: Severity = Severity.CRITICAL
    accepted_offsets_have_no_holes: Severity = Severity.CRITICAL
    accepted_sequences_have_no_gaps: Severity = Severity.CRITICAL
    rows_are_the_committed_records: Severity = Severity.CRITICAL
    record_offsets_increase: Severity = Severity.CRITICAL
    record_sequences_are_unique: Severity = Severity.CRITICAL
    no_row_of_an_uncommitted_transaction: Severity = Severity.CRITICAL
    timestamps_are_in_range: Severity = Severity.WARNING
    keys_are_in_their_partition: Severity = Severity.WARNING
    transactions_are_whole: Severity = Severity.CRITICAL
    producer_ids_have_one_owner: Severity = Severity.CRITICAL
    state_chain_is_unbroken: Severity = Severity.CRITICAL
    last_stable_offset_never_falls: Severity = Severity.CRITICAL
    duplicates_are_as_usual: Severity = Severity.WARNING
    out_of_order_is_as_usual: Severity = Severity.WARNING
    corrupt_is_as_usual: Severity = Severity.WARNING
    volume_is_as_usual: Severity = Severity.WARNING


class AuditSettings(Frozen):
    """What counts as too far, and what stops a run.

    What is usual is the median of the last `history_runs` runs, once there are `history_least` of them: a
    share may lie `share_above_usual` above it, the volume of a topic may be `volume_factor` times as much or
    as little. Timestamps lie between `earliest_timestamp` and `timestamp_ahead_ms` after the end of the run's
    day. Of `key_sample` keys of each partition, a share of `keys_elsewhere` may belong into another one.
    `examples` is how many places of a failure are kept.
    """

    severities: Severities = Severities()
    history_runs: Annotated[Count, Field(ge=1, le=366)] = 28
    history_least: Annotated[Count, Field(ge=1)] = 7
    share_above_usual: Share = 0.05
    volume_factor: Annotated[float, Field(gt=1)] = 4.0
    earliest_timestamp: date = date(2000, 1, 1)
    timestamp_ahead_ms: Annotated[Count, Field(ge=0)] = HOUR_MS
    key_sample: Annotated[Count, Field(ge=0)] = 200
    keys_elsewhere: Share = 0.01
    examples: Annotated[Count, Field(ge=1, le=100)] = 5

    def severity(self, name: ExpectationName) -> Severity:
        """How a failure of the expectation is taken."""
        found: Severity = getattr(self.severities, name)
        return found

    @property
    def earliest_ms(self) -> int:
        """The earliest timestamp that is in range, in ms since 1970."""
        return int(datetime.combine(self.earliest_timestamp, time(), UTC).timestamp()) * 1000
