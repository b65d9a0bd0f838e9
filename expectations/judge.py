"""Evaluates each suite on its frame of counts with Great Expectations, in this process."""

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape, unescape
from math import isnan
from pathlib import Path
from typing import Any, ClassVar

import great_expectations as gx
import pyarrow as pa
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.datasource.fluent import PandasDatasource
from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, Template

from expectations.gate import Facts, JudgedExpectation, Judgement, Suite
from expectations.suites import SUITES
from spark_jobs.config.audit import AuditSettings, ExpectationName, Severity

# Data Docs: Great Expectations' content in pages that need no network.

TEMPLATES = FileSystemLoader(Path(__file__).parent / "docs")


class _OfflineView(DefaultJinjaPageView):
    """The library's page loads scripts, styles and a logo from other hosts; this one is self-contained."""

    _template: ClassVar[str] = "suite_page.j2"

    def __init__(self) -> None:
        super().__init__()
        self.env.loader = ChoiceLoader([TEMPLATES, self.env.loader])
        self.env.auto_reload = False
        self.env.filters["generate_html_element_uuid"] = lambda prefix: prefix  # the same page every time


def suite_page(result: ExpectationSuiteValidationResult, name: str) -> str:
    """The page of one suite."""
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    return _view().render(document, suite_name=name)


@cache
def _view() -> _OfflineView:
    return _OfflineView()


def index_page(findings: Sequence[JudgedExpectation], run_id: str) -> str:
    """All expectations of the run, with links to the suites' pages."""
    return _index().render(findings=findings, run_id=run_id)


@cache
def _index() -> Template:
    return Environment(loader=TEMPLATES, autoescape=True).get_template("index_page.j2")


# Evaluation.

COUNTS = {"result_format": "BASIC"}
"""How many rows are wrong: the pages of a suite that holds need no more."""
REMARK = "remark"
"""A column of sentences, which need no name before them."""
NOT_EVALUATED = "not evaluated: its severity is off"


def judge(facts: Facts, settings: AuditSettings, *, run_id: str, run_time: str) -> Judgement:
    """Evaluates all suites; `run_time` is the run's logical time, so that equal runs give equal pages."""
    findings: list[JudgedExpectation] = []
    pages: dict[str, str] = {}
    for suite in (each for each in SUITES if each.applies(facts)):
        expectations = _with_severity(suite, settings)
        evaluated = tuple(each for each in expectations if not _is_off(each, settings))
        result = _validated(suite, evaluated, suite.frame(facts, settings))
        result.meta = {"run_id": gx.RunIdentifier(run_name=run_id, run_time=run_time)}
        findings += _findings(suite, expectations, result, settings)
        pages[f"{suite.name}.html"] = suite_page(result, suite.name)
    pages["index.html"] = index_page(findings, run_id)
    return Judgement(findings=tuple(findings), pages=pages)


def _validated(
    suite: Suite, expectations: tuple[Expectation, ...], frame: pa.Table
) -> ExpectationSuiteValidationResult:
    """The library's result for the frame; failing rows are collected only where there are any."""
    batch = _definition(suite.name).get_batch({"dataframe": _escaped(frame).to_pandas()})
    found = batch.validate(gx.ExpectationSuite(suite.name, expectations=expectations), result_format=COUNTS)
    by_name = {each.expectation_config.type: each for each in found.results}
    wrong = [each for each in expectations if not by_name[each.expectation_type].success]
    if wrong:
        closely = batch.validate(
            gx.ExpectationSuite(suite.name, expectations=wrong), result_format=_rows_of(suite)
        )
        by_name |= {each.expectation_config.type: each for each in closely.results}
        found.results = [by_name[each.expectation_config.type] for each in found.results]
    return found


@cache
def _definition(suite: str) -> BatchDefinition:
    """The batch definition that passes the suite's frame to Great Expectations."""
    return _source().add_dataframe_asset(suite).add_batch_definition_whole_dataframe("run")


@cache
def _source() -> PandasDatasource:
    """A data source without files, progress bars or analytics."""
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = {"globally": False}
    return context.data_sources.add_pandas("facts")


def _escaped(frame: pa.Table) -> pa.Table:
    """Names of topics may be anything, and the library's pages show values as they are."""
    for number, column in enumerate(frame.schema):
        if pa.types.is_string(column.type):
            safe = [escape(str(value)) for value in frame.column(number).to_pylist()]
            frame = frame.set_column(number, column.name, pa.array(safe, pa.string()))
    return frame


def _with_severity(suite: Suite, settings: AuditSettings) -> tuple[Expectation, ...]:
    """The suite's expectations; Great Expectations knows no severity for those that are off."""
    expectations = suite.expectations(settings)
    for each in expectations:
        if not _is_off(each, settings):
            each.severity = settings.severity(name_of(each)).value
    return expectations


def _is_off(expectation: Expectation, settings: AuditSettings) -> bool:
    return settings.severity(name_of(expectation)) is Severity.OFF


def name_of(expectation: Expectation) -> ExpectationName:
    """The name under which Great Expectations knows the class, which is also Onceover's name for it."""
    return ExpectationName[expectation.expectation_type.upper()]


def _rows_of(suite: Suite) -> dict[str, Any]:
    return {
        "result_format": "COMPLETE",
        "unexpected_index_column_names": [*suite.about, *suite.shown],
        "return_unexpected_index_query": False,
    }


def _findings(
    suite: Suite,
    expectations: tuple[Expectation, ...],
    result: ExpectationSuiteValidationResult,
    settings: AuditSettings,
) -> Iterator[JudgedExpectation]:
    by_name = {each.expectation_config.type: each for each in result.results}
    for expectation in expectations:
        found = by_name.get(expectation.expectation_type)
        yield JudgedExpectation(
            suite=suite.name,
            expectation=name_of(expectation),
            severity=settings.severity(name_of(expectation)),
            sentence=expectation.description,
            success=None if found is None else bool(found.success),
            observed=NOT_EVALUATED if found is None else _observed(found, suite),
            expected=expected(expectation),
            examples=() if found is None else tuple(_examples(found, settings.examples)),
        )


def _observed(found: ExpectationValidationResult, suite: Suite) -> str:
    """How many rows fail; a frame that cannot be evaluated fails with the reason."""
    if "element_count" not in found.result:
        return f"could not be judged: {found.exception_info}"
    count, wrong = found.result["element_count"], found.result["unexpected_count"]
    return f"{wrong} of {count} wrong, by {' and '.join(suite.about)}"


def _examples(found: ExpectationValidationResult, most: int) -> Iterator[str]:
    for row in found.result.get("unexpected_index_list", ())[:most]:
        known = {name: value for name, value in row.items() if value is not None and not _is_nan(value)}
        yield ", ".join(
            _shown(value) if name == REMARK else f"{name} {_shown(value)}" for name, value in known.items()
        )


def _is_nan(value: object) -> bool:
    """What pandas makes of a number that is missing."""
    return isinstance(value, float) and isnan(value)


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else unescape(str(value))


def expected(expectation: Expectation) -> str:
    """The condition in terms of the frame's columns."""
    if isinstance(expectation, ExpectColumnPairValuesToBeEqual):
        return f"{expectation.column_A} = {expectation.column_B}"
    if isinstance(expectation, ExpectColumnPairValuesAToBeGreaterThanB):
        return f"{expectation.column_A} ≥ {expectation.column_B}"
    bound: Any = expectation
    return f"{bound.column} ≤ {bound.max_value:g}"
