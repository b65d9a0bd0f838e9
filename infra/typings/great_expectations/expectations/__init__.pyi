from typing import Any

class Expectation:
    description: str
    severity: str
    expectation_type: str
    def __init__(self, **settings: Any) -> None: ...

class ExpectColumnPairValuesToBeEqual(Expectation):
    column_A: str
    column_B: str

class ExpectColumnPairValuesAToBeGreaterThanB(Expectation):
    column_A: str
    column_B: str
    or_equal: bool

class ExpectColumnValuesToBeBetween(Expectation):
    column: str
    min_value: float | None
    max_value: float | None
