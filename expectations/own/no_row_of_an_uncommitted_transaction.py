"""No row lies within an aborted, open or unclear transaction of its producer."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class NoRowOfAnUncommittedTransaction(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "uncommitted_rows"
    max_value: float = 0
    description: str = "No row belongs to a transaction that was aborted or is not decided yet."
