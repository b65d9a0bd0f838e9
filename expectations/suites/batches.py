"""`batches`: every batch has a verdict, and what was accepted forms one log."""

import pyarrow as pa
from great_expectations.expectations import Expectation

from expectations.own import at_most, equal
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per partition."""
    return facts.partitions


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (
        equal(ExpectationName.EVERY_BATCH_HAS_ONE_VERDICT, "batches_in", "verdicts"),
        at_most(ExpectationName.ACCEPTED_OFFSETS_INCREASE, "disordered_batches"),
        at_most(ExpectationName.ACCEPTED_OFFSETS_HAVE_NO_HOLES, "missing_offsets"),
        at_most(ExpectationName.NO_OFFSETS_ARE_MISSING, "gap_offsets"),
        at_most(ExpectationName.ACCEPTED_SEQUENCES_HAVE_NO_GAPS, "sequence_gaps"),
    )


BATCHES = Suite(name="batches", about=("topic", "partition"), frame=frame, expectations=expectations)
