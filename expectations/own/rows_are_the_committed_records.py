"""Records of accepted committed batches = rows written."""

from great_expectations.expectations import ExpectColumnPairValuesToBeEqual

from spark_jobs.config.audit import ExpectationName


class RowsAreTheCommittedRecords(ExpectColumnPairValuesToBeEqual):
    column_A: str = "rows_expected"
    column_B: str = "rows"
    description: str = ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS.sentence
