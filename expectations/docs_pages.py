"""Data Docs that work without a network: Great Expectations' content in pages of our own, all in one file."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, Template

from expectations.finding import Finding

TEMPLATES = FileSystemLoader(Path(__file__).parent / "docs")


class _OfflineView(DefaultJinjaPageView):
    """The library's own page links scripts, styles and a logo from elsewhere; ours holds all it needs."""

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


def index_page(findings: Sequence[Finding], run_id: str) -> str:
    """All expectations of the run, with links to the suites' pages."""
    return _index().render(findings=findings, run_id=run_id)


@cache
def _index() -> Template:
    return Environment(loader=TEMPLATES, autoescape=True).get_template("index_page.j2")
