"""`sources`: what the run reads is there, is Kafka's, is new, and is all that was there before."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per source."""
    return facts.sources


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.SOURCES_HAVE_OBJECTS, "is_empty"),
        at_most(ExpectationName.SOURCES_ARE_RECOGNISED, "is_unrecognised"),
        at_most(ExpectationName.SOURCES_BRING_NEW_OBJECTS, "is_stale"),
        at_most(ExpectationName.PARTITIONS_ARE_STILL_THERE, "vanished_partitions"),
    )


SOURCES = Suite(name="sources", about=("source",), frame=frame, expectations=expectations, shown=("remark",))
