"""`sources`: what the run reads is there, is Kafka's, is new, and is all that was there before."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.partitions_are_still_there import PartitionsAreStillThere
from expectations.own.sources_are_recognised import SourcesAreRecognised
from expectations.own.sources_bring_new_objects import SourcesBringNewObjects
from expectations.own.sources_have_objects import SourcesHaveObjects
from expectations.suite import Suite
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per source."""
    return facts.sources


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        SourcesHaveObjects(),
        SourcesAreRecognised(),
        SourcesBringNewObjects(),
        PartitionsAreStillThere(),
    )


SOURCES = Suite(name="sources", about=("source",), frame=frame, expectations=expectations, shown=("remark",))
