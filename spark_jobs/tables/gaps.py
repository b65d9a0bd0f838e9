"""`gaps`: offsets of brokers' logs that no copy has."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

GAPS_TABLE = "gaps.parquet"
"""File of the table below the folder of the step admit."""


class GapStatus(StrEnum):
    """What became of a gap."""

    OPEN = "open"
    """The partition is published up to it; what is behind it is held."""
    FILLED = "filled"
    """A later copy brought the offsets: they were taken."""
    PUBLISHED_PAST = "published_past"
    """The partition was published without the offsets, as the topic's settings say."""
    DELETED = "deleted"
    """The broker's log began behind the offsets before any copy had them: retention or DeleteRecords."""
    LATE = "late"
    """A later copy brought offsets that an earlier run had passed: a backfill of its date takes them."""
    TRUNCATED = "truncated"
    """The log ends before the offsets now."""


GAPS = Contract(
    name="gaps",
    meaning=(
        "Ranges of missing offsets: those that are open after the run, and those that changed in it. Holes "
        "that a cleaner explains are none."
    ),
    columns=(
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("first_offset", pa.int64(), "first offset that is or was missing"),
        Column("last_offset", pa.int64(), "last offset that is or was missing"),
        Column("status", pa.string(), "open, filled, published_past, deleted, late or truncated"),
        Column("found_on", pa.date32(), "date of the run that found the gap"),
        Column("filled_on", pa.date32(), "date of the run that took the missing offsets", True),
        Column("held_batches", pa.int64(), "batches held behind an open gap, up to the next one"),
        Column("held_records", pa.int64(), "records that these batches claim"),
        Column("before", pa.string(), "object that ends before the gap; null if none is known", True),
        Column("after", pa.string(), "object that goes on behind the gap, or that has its offsets", True),
    ),
    key=("topic", "partition", "first_offset", "status", "after"),
)
