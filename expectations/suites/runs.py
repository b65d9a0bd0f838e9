"""`runs`: whether a run is like those before it, and whether most of it could be used."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own import at_most
from expectations.suite import Suite
from expectations.usual import compare, with_refused_shares
from spark_jobs.config.audit import AuditSettings, ExpectationName


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
