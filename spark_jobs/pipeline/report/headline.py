"""A run in one line: the counts that the overview shows for every run."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.ledger import LedgerLine, StepLine
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.tables.admit import GAPS, GapStatus
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from spark_jobs.tables.materialise import QUARANTINE
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS

LONGEST_MESSAGE = 2000
MOST_NAMES = 3

Row = dict[str, Any]


def headline(line: LedgerLine, tables: RunTables) -> Row:
    """Everything about the run that fits in a line; counts are missing where the run did not get to them."""
    counts = {step.step: step.counts for step in line.steps}
    admitted, resolved = counts.get(Step.ADMIT, {}), counts.get(Step.RESOLVE, {})
    return {
        "id": line.run_id,
        "day": line.day.isoformat(),
        "status": line.status.value,
        "started": line.started_at,
        "finished": line.finished_at,
        "seconds": sum(filter(None, map(seconds_of, line.steps))),
        "attempts": line.attempts,
        "message": line.message[:LONGEST_MESSAGE],
        "reason": line.reason[:LONGEST_MESSAGE],
        "step": line.steps[-1].step.value if line.steps else Step.STAGE.value,
        "published": bool(counts.get(Step.PUBLISH)),
        "bytes": tables.counts(Step.STAGE).get("bytes"),
        "batches": admitted.get("batches"),
        "records": _records(counts),
        "verdicts": {verdict.value: admitted[verdict] for verdict in Verdict if admitted.get(verdict)},
        "outcomes": {outcome.value: resolved[outcome] for outcome in Outcome if resolved.get(outcome)},
        "transactions": resolved.get("transactions"),
        **lag(tables),
        **gaps(tables),
        "quarantine": quarantine(tables),
        **expectations(tables),
    }


def _records(counts: Mapping[Step, Mapping[str, int]]) -> int | None:
    """Records to publish; those that `deduplicate` set aside do not count."""
    records = counts.get(Step.MATERIALISE, {}).get("records")
    duplicates = counts.get(Step.DEDUPLICATE, {}).get("duplicates", 0)
    return None if records is None else records - duplicates


def seconds_of(step: StepLine) -> float | None:
    """How long the step took; None while it is not done."""
    if not step.finished_at:
        return None
    started, finished = map(datetime.fromisoformat, (step.started_at, step.finished_at))
    return round((finished - started).total_seconds(), 3)


def lag(tables: RunTables) -> Row:
    """How far readers are behind, because transactions are open."""
    table = tables.table(Step.RESOLVE, RESOLVED_PARTITIONS.file)
    if table is None or not table.num_rows:
        return {}
    lags = table.column("lag").to_numpy()
    held = table.column("held_batches").to_numpy()
    return {"lag": int(lags.sum()), "lagging": int((lags > 0).sum()), "held": int(held.sum())}


def gaps(tables: RunTables) -> Row:
    """How many partitions are held behind missing offsets, and the first of them; nothing without any."""
    rows = [row for row in tables.rows(Step.ADMIT, GAPS.file) if row["status"] == GapStatus.OPEN]
    if not rows:
        return {}
    held = dict.fromkeys(f"{row['topic']}-{row['partition']}" for row in rows)
    more = f" and {len(held) - MOST_NAMES} more" if len(held) > MOST_NAMES else ""
    return {
        "gaps": {
            "partitions": len(held),
            "offsets": sum(row["last_offset"] - row["first_offset"] + 1 for row in rows),
            "where": ", ".join(list(held)[:MOST_NAMES]) + more,
        }
    }


def quarantine(tables: RunTables) -> dict[str, int]:
    """Rows in quarantine by kind."""
    found: Counter[str] = Counter()
    for entry in tables.table_files(Step.MATERIALISE):
        if entry["topic"] is None and entry["table"] == QUARANTINE.name:
            key = tables.key(Step.MATERIALISE, entry["file"])
            for rows in iter_rows(tables.lake, key, columns=["kind"]):
                found.update(map(str, rows.column("kind").to_pylist()))
    return dict(found)


def expectations(tables: RunTables) -> Row:
    """How many were evaluated, and how many failed."""
    table = tables.table(Step.AUDIT, EXPECTATION_RESULTS.file, ["severity", "success"])
    if table is None:
        return {}
    evaluated = [row for row in table.to_pylist() if row["success"] is not None]
    failed = Counter(row["severity"] for row in evaluated if not row["success"])
    return {"expectations": len(evaluated), "critical": failed["critical"], "warnings": failed["warning"]}
