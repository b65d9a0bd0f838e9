"""The remarks of `admit` for the run's report: gaps, misplaced batches, damaged logs."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.lake.manifest import Manifest
from spark_jobs.pipeline.admit.job import AdmittedPartition
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


def misplaced_messages(manifest: Manifest, admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on batches at impossible offsets."""
    objects = {entry.order: entry for entry in manifest.batches}
    for each in admitted:
        if (found := each.misplaced) is not None:
            entry = objects[found.object_order]
            where = f"{entry.source}/{entry.path} at byte {found.position}"
            yield (
                f"{each.partition} holds {found.count} batches at impossible offsets, quarantined as "
                f"corrupt; the first is in {where}: {found.reason}"
            )


def txn_index_messages(admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on transaction indexes of tiered storage that differ from the markers, which decide."""
    for each in admitted:
        if found := each.txn_index_differences:
            more = f" and {len(found) - 1} more differences" if len(found) > 1 else ""
            yield (
                f"warning: {each.partition}: {found[0]}{more}. The markers decide; the log or the index is "
                "not what the broker wrote"
            )


def log_messages(admitted: Sequence[AdmittedPartition]) -> Iterator[str]:
    """Remarks on logs that no broker could load, and on logs that contradict earlier runs or each other."""
    for each in admitted:
        if each.critical:
            yield (
                f"critical: {each.partition} holds {each.critical} plain batches inside open transactions of "
                "their producers; no broker could load this log again"
            )
        if each.staged_end_offset < each.start_offset:
            yield (
                f"critical: {each.partition} was staged up to offset {each.staged_end_offset}, but earlier "
                f"runs have taken it up to {each.start_offset}: truncated, or the topic was created anew"
            )
        if Verdict.DIVERGENT in each.verdicts:
            count = each.verdicts[Verdict.DIVERGENT]
            yield f"{each.partition} holds {count} batches that another leader's contradict: divergent"
