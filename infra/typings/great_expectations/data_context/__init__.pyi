from collections.abc import Mapping
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

class _Batch:
    def validate(
        self, expect: ExpectationSuite, *, result_format: Mapping[str, Any] = ...
    ) -> ExpectationSuiteValidationResult: ...

class _BatchDefinition:
    def get_batch(self, batch_parameters: Mapping[str, Any] = ...) -> _Batch: ...

class _Asset:
    def add_batch_definition_whole_dataframe(self, name: str) -> _BatchDefinition: ...

class _Source:
    def add_dataframe_asset(self, name: str) -> _Asset: ...

class _Sources:
    def add_pandas(self, name: str) -> _Source: ...

class _Variables:
    progress_bars: Mapping[str, bool]

class EphemeralDataContext:
    data_sources: _Sources
    variables: _Variables
    def enable_analytics(self, enable: bool | None) -> None: ...
