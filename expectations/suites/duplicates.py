"""`duplicates`: each record of a topic with a business id is published or a duplicate; most have an id."""

import numpy as np
import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most, equal
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName
from spark_jobs.tables.audit import ID_FACTS


def frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per partition; no share is judged of too few records."""
    table = facts.ids if facts.ids is not None else ID_FACTS.empty()
    records, without_id, rows, duplicates = (
        np.asarray(table.column(name)) for name in ("records", "without_id", "rows", "duplicates")
    )
    share = pa.array(without_id / np.maximum(records, 1), mask=records < settings.share_least)
    return table.append_column("accounted", pa.array(rows + duplicates)).append_column(
        "share_without_id", share
    )


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.EVERY_RECORD_IS_PUBLISHED_OR_A_DUPLICATE, "records", "accounted"),
        at_most(ExpectationName.MOST_RECORDS_HAVE_AN_ID, "share_without_id", settings.without_id),
    )


DUPLICATES = Suite(
    name="duplicates",
    about=("topic", "partition"),
    frame=frame,
    expectations=expectations,
    applies=lambda facts: facts.ids is not None,
)
