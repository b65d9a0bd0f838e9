"""Batches in = accepted + duplicate + rejected + corrupt + held."""

from great_expectations.expectations import ExpectColumnPairValuesToBeEqual

from expectations.remembering import Remembering


class EveryBatchHasOneVerdict(Remembering, ExpectColumnPairValuesToBeEqual):
    column_A: str = "batches_in"
    column_B: str = "verdicts"
    description: str = (
        "Every batch that came in is accounted for: each has exactly one verdict, none is lost or judged"
        " twice."
    )
