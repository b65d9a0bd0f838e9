"""`states`: every run continues where the previous one stopped."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_least, at_most
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition ever seen."""
    return facts.partitions


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.STATE_CHAIN_IS_UNBROKEN, "state_breaks"),
        at_least(ExpectationName.LAST_STABLE_OFFSET_NEVER_FALLS, "last_stable_offset", "last_stable_before"),
    )


STATES = Suite(name="states", about=("topic", "partition"), frame=frame, expectations=expectations)
