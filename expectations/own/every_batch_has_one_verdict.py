"""Batches in = accepted + duplicate + rejected + corrupt + held."""

from great_expectations.expectations import ExpectColumnPairValuesToBeEqual

from spark_jobs.config.audit import ExpectationName


class EveryBatchHasOneVerdict(ExpectColumnPairValuesToBeEqual):
    column_A: str = "batches_in"
    column_B: str = "verdicts"
    description: str = ExpectationName.EVERY_BATCH_HAS_ONE_VERDICT.sentence
