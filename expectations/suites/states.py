"""`states`: every night goes on where the last one stopped."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.last_stable_offset_never_falls import LastStableOffsetNeverFalls
from expectations.own.state_chain_is_unbroken import StateChainIsUnbroken
from expectations.suite import Suite
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition ever seen."""
    return facts.partitions


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (StateChainIsUnbroken(), LastStableOffsetNeverFalls())


STATES = Suite(name="states", about=("topic", "partition"), frame=frame, expectations=expectations)
