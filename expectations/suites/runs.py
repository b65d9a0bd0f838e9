"""`runs`: whether volumes and shares are near the median of earlier runs, and most batches are accepted."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName

SHARES = ("duplicate", "out_of_order", "corrupt")
ALL_TOPICS = "(all topics)"
COUNTED = ("batches", "overlap", "rejected", "corrupt")
Row = dict[str, Any]

_COLUMNS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "records": pa.int64(),
    "usual_records": pa.float64(),
    "volume_factor": pa.float64(),
    **{f"{name}_above_usual": pa.float64() for name in SHARES},
}


def compare(current: pa.Table, history: Sequence[pa.Table], *, least: int) -> pa.Table:
    """Tables `topic_volumes`, the run's and those of earlier runs; a topic's first run is the first with it.

    Nothing is compared for a topic with fewer than `least` runs. A run without a topic brought nothing of it.
    """
    now = _by_topic(current)
    past = [_by_topic(table) for table in history]
    topics = sorted({*now, *(topic for run in past for topic in run)})
    return pa.Table.from_pylist(
        [_row(topic, now, past, least) for topic in topics], schema=pa.schema(_COLUMNS)
    )


def _row(topic: str, now: dict[str, Row], past: Sequence[dict[str, Row]], least: int) -> Row:
    nothing = dict.fromkeys((*SHARES, "batches", "records"), 0)
    found = now.get(topic, nothing)
    first = next((number for number, run in enumerate(past) if topic in run), len(past))
    known = [run.get(topic, nothing) for run in past[first:]]
    plain = {"topic": topic, "records": found["records"]}
    if len(known) < least:
        return plain
    usual = median(run["records"] for run in known)
    return {
        **plain,
        "usual_records": usual,
        "volume_factor": max((found["records"] + 1) / (usual + 1), (usual + 1) / (found["records"] + 1)),
        **{
            f"{name}_above_usual": _share(found, name) - median(_share(run, name) for run in known)
            for name in SHARES
        },
    }


def with_refused_shares(compared: pa.Table, volumes: pa.Table, *, least: int) -> pa.Table:
    """The share of refused and corrupt batches among the new ones, where there are at least `least`.

    A last row is about all topics together: small ones may fail only as a whole.
    """
    known = _by_topic(volumes)
    total = {name: sum(row[name] for row in known.values()) for name in (*COUNTED, "records")}
    rows = [*compared.to_pylist(), {"topic": ALL_TOPICS, "records": total["records"]}]
    counts = [known.get(row["topic"], dict.fromkeys(COUNTED, 0)) for row in rows[:-1]] + [total]
    shares = [_refused_share(each, least) for each in counts]
    extended = pa.Table.from_pylist(rows, schema=compared.schema)
    return extended.append_column("refused_share", pa.array(shares, pa.float64()))


def _refused_share(row: Row, least: int) -> float | None:
    new = row["batches"] - row["overlap"]
    return None if new < least else float((row["rejected"] + row["corrupt"]) / new)


def _share(row: Row, name: str) -> float:
    """Only batches that are new in the run count: overlapping copies are not duplicates of producers.

    Runs of earlier versions counted overlaps as duplicates.
    """
    return float(row[name] / max(row["batches"] - row.get("overlap", 0), 1))


def _by_topic(table: pa.Table) -> dict[str, Row]:
    return {row["topic"]: row for row in table.to_pylist()}


def frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per topic of this run or of those before, and one for all topics together.

    Nothing is compared where too few runs are known, and no share is judged of too few batches.
    """
    compared = compare(facts.volumes, facts.history, least=settings.history_least)
    return with_refused_shares(compared, facts.volumes, least=settings.share_least)


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    above = settings.share_above_usual
    return (
        at_most(ExpectationName.MOST_BATCHES_ARE_ACCEPTED, "refused_share", settings.refused_share),
        at_most(ExpectationName.DUPLICATES_ARE_AS_USUAL, "duplicate_above_usual", above),
        at_most(ExpectationName.OUT_OF_ORDER_IS_AS_USUAL, "out_of_order_above_usual", above),
        at_most(ExpectationName.CORRUPT_IS_AS_USUAL, "corrupt_above_usual", above),
        at_most(ExpectationName.VOLUME_IS_AS_USUAL, "volume_factor", settings.volume_factor),
    )


RUNS = Suite(
    name="runs", about=("topic",), frame=frame, expectations=expectations, shown=("records", "usual_records")
)
