"""The topics' tables: each committed record exactly once, and nothing else."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most, equal
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
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
    """What the headers promise; where they leave room, the rows may be any number within it."""
    rows = np.asarray(table.column("rows"))
    claimed = np.asarray(table.column("committed_records")) + np.asarray(table.column("replayed_records"))
    left_out = np.asarray(table.column("unreadable_records")) + np.asarray(table.column("unfit_records"))
    most = claimed - left_out
    least = most - np.asarray(table.column("uncertain_records"))
    uncounted = np.asarray(table.column("uncounted_batches")) > 0
    expected: npt.NDArray[np.int64] = np.clip(rows, least, np.where(uncounted, np.maximum(rows, most), most))
    return expected


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS, "rows_expected", "rows"),
        at_most(ExpectationName.RECORD_OFFSETS_INCREASE, "disordered_rows"),
        at_most(ExpectationName.RECORD_SEQUENCES_ARE_UNIQUE, "repeated_sequences"),
        at_most(ExpectationName.NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION, "uncommitted_rows"),
        at_most(ExpectationName.TIMESTAMPS_ARE_IN_RANGE, "strange_timestamps"),
        at_most(ExpectationName.KEYS_ARE_IN_THEIR_PARTITION, "share_elsewhere", settings.keys_elsewhere),
    )


RECORDS = Suite(name="records", about=("topic", "partition"), frame=frame, expectations=expectations)
