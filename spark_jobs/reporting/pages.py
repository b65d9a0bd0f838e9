"""The pages themselves: what is the same in every lake, and loads the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.reporting.script_data import to_constant

HERE = Path(__file__).parent
CHARTS = ("uPlot.iife.js", "uPlot.min.css")
"""Of the package uplot-python, which carries the library in a wheel; its own code is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its file, script and template are named alike; the overview is what a folder opens with."""

    name: str
    title: str

    @property
    def file(self) -> str:
        return "index.html" if self.name == "overview" else f"{self.name}.html"


PAGES = (
    Page(name="overview", title="Overview"),
    Page(name="run", title="Run"),
    Page(name="topic", title="Topics"),
    Page(name="producers", title="Producers"),
    Page(name="transactions", title="Transactions"),
    Page(name="batches", title="Batch explorer"),
)


def page_files(lake: str) -> Iterator[tuple[str, bytes]]:
    """Every page and everything that pages are made with, by path; `lake` is named in each."""
    for page in PAGES:
        template = _environment().get_template(f"{page.name}.html.j2")
        yield page.file, template.render(page=page, pages=PAGES, lake=lake).encode()
    for asset in sorted((HERE / "assets").iterdir()):
        yield f"assets/{asset.name}", asset.read_bytes()
    yield "assets/labels.js", to_constant("labels", labels())
    for name in CHARTS:
        yield f"assets/{name}", (_chart_library() / name).read_bytes()


def labels() -> dict[str, dict[str, tuple[str, str, str]]]:
    """Symbol, tone and meaning of every verdict and outcome, as they are defined."""
    return {
        "verdicts": {each.value: (each.symbol, each.tone.value, each.meaning) for each in Verdict},
        "outcomes": {each.value: (each.symbol, each.tone.value, each.meaning) for each in Outcome},
    }


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _chart_library() -> Path:
    found = find_spec("uplot")
    assert found is not None and found.origin is not None  # noqa: PT018 — a dependency like any other
    return Path(found.origin).parent / "static"
