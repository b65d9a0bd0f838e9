from typing import Any

class _Configuration:
    type: str

class ExpectationValidationResult:
    success: bool
    expectation_config: _Configuration
    result: dict[str, Any]
    exception_info: dict[str, Any]

class ExpectationSuiteValidationResult:
    success: bool
    results: list[ExpectationValidationResult]
    meta: dict[str, Any]
