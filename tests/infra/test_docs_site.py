"""The documentation builds offline, its links and pictures are right, and the reference follows the code."""

import ast
import re
import tomllib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, generate_tokens
from typing import Any

import pytest
import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import Browser

from infra.docs.layers import PICTURE, picture
from spark_jobs.cli import app
from spark_jobs.config.audit import ExpectationName
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome
from spark_jobs.pipeline.report.metrics import METRICS
from spark_jobs.tables.publish import OWN_TABLES

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "infra" / "docs" / "mkdocs.yml"
LOADED = re.compile(r"""<(?:script|link|img)\b[^>]*?(?:src|href)=["']?(https?:)?//""")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
PRIVATE_WORDS = re.compile(
    r"\b(?:(?<!weather-)nights?|told|tells?|somebody|whoever|stands(?! for)|stood|errands?|fates?"
    r"|lies (?:in|behind|before)|carried|taken up again|patience|forgets?|forgotten|workshops?|shreds?"
    r"|looks? away|uncollected|astray"
    r"|comes? to be|entered in|says of|has a word|born|cures?|for ever|politely|stumbles?|speaking"
    r"|(?:goes|go|went) past)\b",
    re.IGNORECASE,
)
"""Words that Kafka, Spark, Airflow and Iceberg have other terms for."""
FOLDERS_FOR_USERS = ("concepts", "guides", "operations")
PAGES_FOR_USERS = [ROOT / "README.md"] + [
    page for folder in FOLDERS_FOR_USERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))
]
PAGES_FOR_ENGINEERS = [ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "SECURITY")]
PAGES = sorted({*PAGES_FOR_USERS, *PAGES_FOR_ENGINEERS, *(ROOT / "docs").rglob("*.md")})
PACKAGES = ("spark_jobs", "expectations", "onceover", "dags", "infra")
MODULES = [each for package in PACKAGES for each in sorted((ROOT / package).rglob("*.py"))]
ASSETS = [
    each
    for package in PACKAGES
    for suffix in ("js", "j2", "yaml", "yml", "sql", "tf", "json")
    for each in sorted((ROOT / package).rglob(f"*.{suffix}"))
]
COMMAND = re.compile(r"^ *(onceover (?:lake )?[a-z-]+)\b([^#\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<!\w)--[a-z-]+")


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
        ("outcomes", [*Outcome, *Evidence]),
        ("expectations", list(ExpectationName)),
        ("metrics", [name for each in METRICS for name in (each.name, *each.labels)]),
        ("tables", [*OWN_TABLES, "timestamp_out_of_range"]),
        ("configuration", ["lake", "sources[].dates", "audit.severities", *ExpectationName]),
        ("cli", ["onceover run", "onceover backfill", "onceover lake relocate", "<td>75</td>", *Step]),
    ],
)
def test_the_reference_names_everything_that_the_code_has(site: Path, page: str, names: list[str]) -> None:
    text = (site / "reference" / f"{page}.html").read_text()
    assert [name for name in names if name not in text] == []


def test_every_key_of_the_configuration_has_a_meaning(site: Path) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", (site / "reference" / "configuration.html").read_text(), re.DOTALL)
    assert len(rows) > len(ExpectationName)
    assert [row for row in rows if "<td></td>" in row] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [str(page) for page in pages if LOADED.search(page.read_text())] == []


def test_the_picture_of_the_layers_is_what_import_linter_checks() -> None:
    assert PICTURE.read_text() == picture(), "stale: run python infra/docs/layers.py"


def test_the_picture_of_the_layers_has_every_module_of_every_layer() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = re.findall(r"[a-z_]+(?=\s*(?:[|:\"]|$))", "\n".join(configured[0]["layers"]), re.MULTILINE)
    drawn = re.findall(r">([a-z_.]+)</text>", PICTURE.read_text())
    assert drawn == names


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_the_pages_beside_the_site_lead_somewhere(page: str) -> None:
    links = [link for link in LINK.findall((ROOT / page).read_text()) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(("name", "kind"), [("verdicts", Verdict), ("outcomes", Outcome)])
def test_the_picture_has_every_verdict_and_every_outcome(name: str, kind: type[Verdict | Outcome]) -> None:
    words = re.findall(
        r"[a-z_]+", (ROOT / "docs" / "img" / f"{name}.svg").read_text().partition("</style>")[2]
    )
    assert [each.value for each in kind if each.value not in words] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_private_words(page: Path) -> None:
    prose = CODE.sub("", page.read_text())
    assert PRIVATE_WORDS.findall(prose) == []


def _texts_of(module: Path) -> Iterator[str]:
    """Docstrings, messages and comments."""
    source = module.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in generate_tokens(StringIO(source).readline):
        if token.type == COMMENT:
            yield token.string


def test_docstrings_messages_and_comments_have_no_private_words() -> None:
    texts = [(module, text) for module in MODULES for text in _texts_of(module)]
    assert [
        (module.name, word) for module, text in texts for word in PRIVATE_WORDS.findall(CODE.sub("", text))
    ] == []


def test_assets_and_configuration_have_no_private_words() -> None:
    assert len(ASSETS) > 20
    found = [(asset.name, word) for asset in ASSETS for word in PRIVATE_WORDS.findall(asset.read_text())]
    assert found == []


def _options(name: str, command: Any) -> Iterator[tuple[str, set[str]]]:
    for each, sub in getattr(command, "commands", {}).items():
        yield from _options(f"{name} {each}", sub)
    yield name, {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize("page", PAGES_FOR_USERS, ids=lambda page: page.name)
def test_commands_of_the_pages_exist_with_their_options(page: Path) -> None:
    known = dict(_options("onceover", typer.main.get_command(app)))
    used = [(name, set(OPTION.findall(rest))) for name, rest in COMMAND.findall(page.read_text())]
    assert [(name, options) for name, options in used if not options <= known.get(name, set())] == []


def test_search_works_in_a_browser_that_opened_the_site_from_disk(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").press_sequentially("coordinator_fenced")
    page.locator(".md-search-result__link[href*='verdicts.html']").first.click()
    page.wait_for_url("**/*verdicts.html*")
    assert page.get_by_text("coordinator_fenced").count() > 0
    assert errors == []
    page.close()
