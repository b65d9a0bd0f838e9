from collections.abc import Mapping
from typing import Any, ClassVar

from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

class Expectation:
    __fields__: ClassVar[Mapping[str, Any]]
    description: str
    severity: str
    expectation_type: str
    def __init__(self, **settings: Any) -> None: ...
    @property
    def configuration(self) -> ExpectationConfiguration: ...

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
