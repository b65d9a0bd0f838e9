# What Onceover uses of Great Expectations, whose own annotations are not strict.

from collections.abc import Sequence

from great_expectations.data_context import EphemeralDataContext
from great_expectations.expectations import Expectation

class ExpectationSuite:
    def __init__(self, name: str, expectations: Sequence[Expectation] = ...) -> None: ...

class RunIdentifier:
    def __init__(self, run_name: str | None = ..., run_time: str | None = ...) -> None: ...

def get_context(*, mode: str) -> EphemeralDataContext: ...
