"""One suite per table, named like the table: its counts and the expectations on them."""

from collections.abc import Iterator, Sequence
from functools import cache
from statistics import median
from types import new_class
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnPairValuesToBeEqual,
    ExpectColumnValuesToBeBetween,
)

from expectations.gate import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName
from spark_jobs.tables.audit import ID_FACTS


def at_most(name: ExpectationName, column: str, most: float | None = None) -> Expectation:
    """No value of `column` exceeds `most`, or 0 if the settings give no bound."""
    made = _class_of(name, ExpectColumnValuesToBeBetween, column=column, max_value=0.0)
    return made() if most is None else made(max_value=most)


def equal(name: ExpectationName, first: str, second: str) -> Expectation:
    """Both columns hold the same in every row."""
    return _class_of(name, ExpectColumnPairValuesToBeEqual, column_A=first, column_B=second)()


def at_least(name: ExpectationName, column: str, bound: str) -> Expectation:
    """`column` holds at least what `bound` does, in every row."""
    shape = ExpectColumnPairValuesAToBeGreaterThanB
    return _class_of(name, shape, column_A=column, column_B=bound, or_equal=True)()


@cache
def _class_of(name: ExpectationName, shape: type[Expectation], **fields: str | float) -> type[Expectation]:
    """Great Expectations knows an expectation by its class, which registers itself under its name.

    What is fixed is a default of the class: Data Docs show what is given as a parameter.
    """
    defaults = {**fields, "description": name.sentence}
    types = {field: type(value) for field, value in defaults.items()}
    body = {"__module__": __name__, "__annotations__": types, **defaults}
    title, bases = name.title().replace("_", ""), (shape,)
    made: Any = new_class(title, bases, exec_body=lambda namespace: namespace.update(body))
    found: type[Expectation] = made
    return found


# `sources`: what the run reads is there, is Kafka's, is new, and is all that was there before.


def _sources_expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.SOURCES_HAVE_OBJECTS, "is_empty"),
        at_most(ExpectationName.SOURCES_ARE_RECOGNISED, "is_unrecognised"),
        at_most(ExpectationName.SOURCES_BRING_NEW_OBJECTS, "is_stale"),
        at_most(ExpectationName.PARTITIONS_ARE_STILL_THERE, "vanished_partitions"),
        at_most(ExpectationName.OBJECTS_CAN_BE_READ, "unreadable_objects"),
        at_most(ExpectationName.CAPTURED_OBJECTS_CAN_BE_READ, "unreadable_captures"),
    )


SOURCES = Suite(
    name="sources",
    about=("source",),
    frame=lambda facts, _: facts.sources,
    expectations=_sources_expectations,
    shown=("remark",),
)


# `batches`: every batch has a verdict, and what was accepted forms one log.


def _batches_expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.EVERY_BATCH_HAS_ONE_VERDICT, "batches_in", "verdicts"),
        at_most(ExpectationName.ACCEPTED_OFFSETS_INCREASE, "disordered_batches"),
        at_most(ExpectationName.ACCEPTED_OFFSETS_HAVE_NO_HOLES, "missing_offsets"),
        at_most(ExpectationName.NO_OFFSETS_ARE_MISSING, "gap_offsets"),
        at_most(ExpectationName.ACCEPTED_SEQUENCES_HAVE_NO_GAPS, "sequence_gaps"),
    )


BATCHES = Suite(
    name="batches",
    about=("topic", "partition"),
    frame=lambda facts, _: facts.partitions,
    expectations=_batches_expectations,
)


# `answers`: verdicts are what the broker answered, where a capture shows it.


def _answers_expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (at_most(ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS, "differing"),)


ANSWERS = Suite(
    name="answers",
    about=("topic", "partition"),
    frame=lambda facts, _: facts.answers,
    expectations=_answers_expectations,
    shown=("answers", "remark"),
    applies=lambda facts: facts.answers.num_rows > 0,
)


# The topics' tables: each committed record exactly once, and nothing else.


def _records_frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition, with the rows that it should have and the share of keys that are elsewhere."""
    table = without_duplicates(facts)
    sampled = np.asarray(table.column("keys_sampled"))
    share = np.asarray(table.column("keys_elsewhere")) / np.maximum(sampled, 1)
    return table.append_column("rows_expected", pa.array(rows_expected(table))).append_column(
        "share_elsewhere", pa.array(share, mask=sampled == 0)
    )


def without_duplicates(facts: Facts) -> pa.Table:
    """`partition_facts`; records that `deduplicate` set aside count as replayed ones that were taken out."""
    if facts.ids is None:
        return facts.partitions
    named = ("topic", "partition", "duplicates")
    found = {(topic, partition): count for topic, partition, count in _rows(facts.ids, named)}
    rows = _rows(facts.partitions, ("topic", "partition", "replayed_records"))
    kept = [count - found.get((topic, partition), 0) for topic, partition, count in rows]
    place = facts.partitions.schema.get_field_index("replayed_records")
    return facts.partitions.set_column(place, "replayed_records", pa.array(kept, pa.int64()))


def _rows(table: pa.Table, names: tuple[str, str, str]) -> Iterator[tuple[Any, Any, Any]]:
    first, second, third = (table.column(name).to_pylist() for name in names)
    return zip(first, second, third, strict=True)


def rows_expected(table: pa.Table) -> npt.NDArray[np.int64]:
    """What the headers determine; where they do not, the rows may be any number within it."""
    rows = np.asarray(table.column("rows"))
    claimed = np.asarray(table.column("committed_records")) + np.asarray(table.column("replayed_records"))
    left_out = np.asarray(table.column("unreadable_records")) + np.asarray(table.column("unfit_records"))
    most = claimed - left_out
    least = most - np.asarray(table.column("uncertain_records"))
    uncounted = np.asarray(table.column("uncounted_batches")) > 0
    expected: npt.NDArray[np.int64] = np.clip(rows, least, np.where(uncounted, np.maximum(rows, most), most))
    return expected


def _records_expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS, "rows_expected", "rows"),
        at_most(ExpectationName.RECORD_OFFSETS_INCREASE, "disordered_rows"),
        at_most(ExpectationName.RECORD_SEQUENCES_ARE_UNIQUE, "repeated_sequences"),
        at_most(ExpectationName.NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION, "uncommitted_rows"),
        at_most(ExpectationName.TIMESTAMPS_ARE_IN_RANGE, "strange_timestamps"),
        at_most(ExpectationName.KEYS_ARE_IN_THEIR_PARTITION, "share_elsewhere", settings.keys_elsewhere),
    )


RECORDS = Suite(
    name="records", about=("topic", "partition"), frame=_records_frame, expectations=_records_expectations
)


# `duplicates`: each record of a topic with a business id is published or a duplicate; most are new.


def _duplicates_frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per partition; no share is judged of too few records."""
    table = facts.ids if facts.ids is not None else ID_FACTS.empty()
    records, without_id, rows, duplicates = (
        np.asarray(table.column(name)) for name in ("records", "without_id", "rows", "duplicates")
    )
    table = table.append_column("accounted", pa.array(rows + duplicates))
    for name, counts in (("share_without_id", without_id), ("share_of_duplicates", duplicates)):
        share = pa.array(counts / np.maximum(records, 1), mask=records < settings.share_least)
        table = table.append_column(name, share)
    return table


def _duplicates_expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.EVERY_RECORD_IS_PUBLISHED_OR_A_DUPLICATE, "records", "accounted"),
        at_most(ExpectationName.MOST_RECORDS_HAVE_AN_ID, "share_without_id", settings.without_id),
        at_most(
            ExpectationName.MOST_RECORDS_ARE_NO_DUPLICATES, "share_of_duplicates", settings.duplicate_share
        ),
    )


DUPLICATES = Suite(
    name="duplicates",
    about=("topic", "partition"),
    frame=_duplicates_frame,
    expectations=_duplicates_expectations,
    applies=lambda facts: facts.ids is not None,
)


# `transactions`: each is published whole or not at all, and each producer id has one owner.


def _transactions_frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per file of the table, which is divided by producer id, and one per partition that cuts some.

    The last row is about all transactions: the share of their batches whose outcome cannot be known, if there
    are enough of them.
    """
    torn = facts.partitions.filter(pc.greater(facts.partitions.column("torn_transactions"), pa.scalar(0)))
    rows = [
        {
            "file": f"{row['topic']}-{row['partition']}",
            "transactions": row["torn_transactions"],
            "batches": 0,
            "undecided_batches": 0,
            "torn_transactions": row["torn_transactions"],
            "shared_producer_ids": 0,
            "examples": "",
        }
        for row in torn.to_pylist()
    ]
    total, undecided = (_sum(facts.transactions, name) for name in ("batches", "undecided_batches"))
    everything = {
        "file": "all transactions",
        "transactions": _sum(facts.transactions, "transactions"),
        "batches": total,
        "undecided_batches": undecided,
        "torn_transactions": 0,
        "shared_producer_ids": 0,
        "examples": f"{undecided:,} of {total:,} batches are of an unknown outcome" if undecided else "",
    }
    schema = facts.transactions.schema
    table = pa.concat_tables([facts.transactions, pa.Table.from_pylist([*rows, everything], schema=schema)])
    share = undecided / total if total >= settings.share_least else None
    shares = [*[None] * (table.num_rows - 1), share]
    return table.append_column("undecided_share", pa.array(shares, pa.float64()))


def _sum(table: pa.Table, name: str) -> int:
    return int(np.asarray(table.column(name)).sum())


def _transactions_expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.TRANSACTIONS_ARE_WHOLE, "torn_transactions"),
        at_most(ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED, "undecided_share", settings.undecided_share),
        at_most(ExpectationName.PRODUCER_IDS_HAVE_ONE_OWNER, "shared_producer_ids"),
    )


TRANSACTIONS = Suite(
    name="transactions",
    about=("file",),
    frame=_transactions_frame,
    expectations=_transactions_expectations,
    shown=("examples",),
)


# `states`: every run continues where the previous one stopped.


def _states_expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.STATE_CHAIN_IS_UNBROKEN, "state_breaks"),
        at_least(ExpectationName.LAST_STABLE_OFFSET_NEVER_FALLS, "last_stable_offset", "last_stable_before"),
    )


STATES = Suite(
    name="states",
    about=("topic", "partition"),
    frame=lambda facts, _: facts.partitions,
    expectations=_states_expectations,
)


# `runs`: whether volumes and shares are near the median of earlier runs, and most batches are accepted.

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


def _runs_frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per topic of this run or of those before, and one for all topics together.

    Nothing is compared where too few runs are known, and no share is judged of too few batches.
    """
    compared = compare(facts.volumes, facts.history, least=settings.history_least)
    return with_refused_shares(compared, facts.volumes, least=settings.share_least)


def _runs_expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    above = settings.share_above_usual
    return (
        at_most(ExpectationName.MOST_BATCHES_ARE_ACCEPTED, "refused_share", settings.refused_share),
        at_most(ExpectationName.DUPLICATES_ARE_AS_USUAL, "duplicate_above_usual", above),
        at_most(ExpectationName.OUT_OF_ORDER_IS_AS_USUAL, "out_of_order_above_usual", above),
        at_most(ExpectationName.CORRUPT_IS_AS_USUAL, "corrupt_above_usual", above),
        at_most(ExpectationName.VOLUME_IS_AS_USUAL, "volume_factor", settings.volume_factor),
    )


RUNS = Suite(
    name="runs",
    about=("topic",),
    frame=_runs_frame,
    expectations=_runs_expectations,
    shown=("records", "usual_records"),
)

SUITES: tuple[Suite, ...] = (SOURCES, BATCHES, ANSWERS, RECORDS, DUPLICATES, TRANSACTIONS, STATES, RUNS)
"""In the order in which they are evaluated and shown."""
