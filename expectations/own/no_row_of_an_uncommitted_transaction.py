"""No row lies within an aborted, open or unclear transaction of its producer."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class NoRowOfAnUncommittedTransaction(ExpectColumnValuesToBeBetween):
    column: str = "uncommitted_rows"
    max_value: float = 0
    description: str = ExpectationName.NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION.sentence
