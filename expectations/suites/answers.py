"""`answers`: verdicts are what the broker answered, where a capture shows it."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition with answers."""
    return facts.answers


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (at_most(ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS, "differing"),)


ANSWERS = Suite(
    name="answers",
    about=("topic", "partition"),
    frame=frame,
    expectations=expectations,
    shown=("answers", "remark"),
    applies=lambda facts: facts.answers.num_rows > 0,
)
