"""Records of accepted committed batches = rows written."""

from great_expectations.expectations import ExpectColumnPairValuesToBeEqual

from expectations.remembering import Remembering


class RowsAreTheCommittedRecords(Remembering, ExpectColumnPairValuesToBeEqual):
    column_A: str = "rows_expected"
    column_B: str = "rows"
    description: str = (
        "Each topic's table gains exactly as many rows as the committed batches of the night hold records."
    )
