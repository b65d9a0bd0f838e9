from collections.abc import Mapping
from typing import Any

from great_expectations import ExpectationSuite
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

class _Batch:
    def validate(
        self, expect: ExpectationSuite, *, result_format: Mapping[str, Any] = ...
    ) -> ExpectationSuiteValidationResult: ...

class BatchDefinition:
    def get_batch(self, batch_parameters: Mapping[str, Any] = ...) -> _Batch: ...
