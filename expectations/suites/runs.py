"""`runs`: whether a night is like those before it."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.corrupt_is_as_usual import CorruptIsAsUsual
from expectations.own.duplicates_are_as_usual import DuplicatesAreAsUsual
from expectations.own.out_of_order_is_as_usual import OutOfOrderIsAsUsual
from expectations.own.volume_is_as_usual import VolumeIsAsUsual
from expectations.suite import Suite
from expectations.usual import compare
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per topic of tonight or of the runs before; no numbers where too few of them are known."""
    return compare(facts.volumes, facts.history, least=settings.history_least)


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    above = settings.share_above_usual
    return (
        DuplicatesAreAsUsual(max_value=above),
        OutOfOrderIsAsUsual(max_value=above),
        CorruptIsAsUsual(max_value=above),
        VolumeIsAsUsual(max_value=settings.volume_factor),
    )


RUNS = Suite(
    name="runs", about=("topic",), frame=frame, expectations=expectations, shown=("records", "usual_records")
)
