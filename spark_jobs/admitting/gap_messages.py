"""What people should know about gaps, and what they can do."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.tables.admit import GapStatus

Row = dict[str, Any]


def gap_messages(gaps: pa.Table) -> Iterator[str]:
    """Sentences about rows of the table `gaps`; those that hold a partition come first."""
    rows = gaps.to_pylist()
    by_partition = [list(same) for _, same in groupby(rows, lambda row: (row["topic"], row["partition"]))]
    for status, sentence in SENTENCES.items():
        for same in by_partition:
            found = [row for row in same if row["status"] == status]
            if found:
                yield sentence(f"{found[0]['topic']}-{found[0]['partition']}", found)


def _range(rows: list[Row]) -> str:
    first = f"offsets {rows[0]['first_offset']} to {rows[0]['last_offset']}"
    return first if len(rows) == 1 else f"{first} and {len(rows) - 1} more ranges"


def _open(name: str, rows: list[Row]) -> str:
    batches, records = (sum(row[key] for row in rows) for key in ("held_batches", "held_records"))
    found_on = rows[0]["found_on"]
    return (
        f"critical: {name}: {_range(rows)} are in no copy since the run of {found_on}. Published up to "
        f"{rows[0]['first_offset']}; {batches} batches with {records} records behind the gap are held until "
        "a copy has the missing offsets. A compacted topic needs cleanup_policy: compact; gaps: publish_past "
        "publishes without them"
    )


def _passed(name: str, rows: list[Row]) -> str:
    return f"{name}: {_range(rows)} are in no copy; published past them, as gaps: publish_past says"


def _deleted(name: str, rows: list[Row]) -> str:
    return f"{name}: the broker deleted {_range(rows)} before any copy had them"


def _late(name: str, rows: list[Row]) -> str:
    days = sorted({row["found_on"] for row in rows})
    return (
        f"{name}: {rows[0]['after']} has {_range(rows)}, which an earlier run went past; to publish them: "
        f"onceover backfill --from {days[0]} --to {days[-1]}"
    )


def _filled(name: str, rows: list[Row]) -> str:
    return f"{name}: {_range(rows)}, missing since the run of {rows[0]['found_on']}, have arrived"


def _truncated(name: str, rows: list[Row]) -> str:
    return f"{name}: the log ends before {_range(rows)} now, missing since the run of {rows[0]['found_on']}"


SENTENCES = {
    GapStatus.OPEN: _open,
    GapStatus.LATE: _late,
    GapStatus.PUBLISHED_PAST: _passed,
    GapStatus.DELETED: _deleted,
    GapStatus.TRUNCATED: _truncated,
    GapStatus.FILLED: _filled,
}
