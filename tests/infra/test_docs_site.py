"""The documentation builds offline, every link in it leads somewhere, and the reference follows the code."""

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from spark_jobs.config.audit import ExpectationName
from spark_jobs.metrics.catalogue import METRICS
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.tables.publish import OWN_TABLES

CONFIG = Path(__file__).parents[2] / "infra" / "docs" / "mkdocs.yml"
LOADED = re.compile(r"""<(?:script|link|img)\b[^>]*?(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; with `strict`, a link that leads nowhere is an error."""
    directory = tmp_path_factory.mktemp("site")
    build(load_config(str(CONFIG), site_dir=str(directory)))
    return directory


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("verdicts", list(Verdict)),
        ("expectations", list(ExpectationName)),
        ("metrics", [each.name for each in METRICS]),
        ("tables", list(OWN_TABLES)),
        ("configuration", ["lake", "sources", "audit.severities"]),
        ("cli", ["onceover run", "onceover backfill", "onceover inspect"]),
    ],
)
def test_the_reference_names_everything_that_the_code_has(site: Path, page: str, names: list[str]) -> None:
    text = (site / "reference" / f"{page}.html").read_text()
    assert [name for name in names if name not in text] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [str(page) for page in pages if LOADED.search(page.read_text())] == []
