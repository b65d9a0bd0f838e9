"""`batches`: every batch has a verdict, and what was accepted forms one log."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.accepted_offsets_have_no_holes import AcceptedOffsetsHaveNoHoles
from expectations.own.accepted_offsets_increase import AcceptedOffsetsIncrease
from expectations.own.accepted_sequences_have_no_gaps import AcceptedSequencesHaveNoGaps
from expectations.own.every_batch_has_one_verdict import EveryBatchHasOneVerdict
from expectations.own.no_offsets_are_missing import NoOffsetsAreMissing
from expectations.suite import Suite
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition."""
    return facts.partitions


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        EveryBatchHasOneVerdict(),
        AcceptedOffsetsIncrease(),
        AcceptedOffsetsHaveNoHoles(),
        NoOffsetsAreMissing(),
        AcceptedSequencesHaveNoGaps(),
    )


BATCHES = Suite(name="batches", about=("topic", "partition"), frame=frame, expectations=expectations)
