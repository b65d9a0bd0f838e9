"""`runs`: whether a run is like those before it, and whether most of it could be used."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.corrupt_is_as_usual import CorruptIsAsUsual
from expectations.own.duplicates_are_as_usual import DuplicatesAreAsUsual
from expectations.own.most_batches_are_accepted import MostBatchesAreAccepted
from expectations.own.out_of_order_is_as_usual import OutOfOrderIsAsUsual
from expectations.own.volume_is_as_usual import VolumeIsAsUsual
from expectations.suite import Suite
from expectations.usual import compare, with_refused_shares
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per topic of this run or of those before, and one for all topics together.

    Nothing is compared where too few runs are known, and no share is judged of too few batches.
    """
    compared = compare(facts.volumes, facts.history, least=settings.history_least)
    return with_refused_shares(compared, facts.volumes, least=settings.share_least)


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    above = settings.share_above_usual
    return (
        MostBatchesAreAccepted(max_value=settings.refused_share),
        DuplicatesAreAsUsual(max_value=above),
        OutOfOrderIsAsUsual(max_value=above),
        CorruptIsAsUsual(max_value=above),
        VolumeIsAsUsual(max_value=settings.volume_factor),
    )


RUNS = Suite(
    name="runs", about=("topic",), frame=frame, expectations=expectations, shown=("records", "usual_records")
)
