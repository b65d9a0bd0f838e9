"""A hook of MkDocs: writes the reference pages from the code, so that they cannot differ from it."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from spark_jobs.cli import app
from spark_jobs.config.audit import ExpectationName
from spark_jobs.config.settings import Settings
from spark_jobs.metrics.catalogue import METRICS
from spark_jobs.protocol.verdict import VERDICTS
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.materialise import RECORDS
from spark_jobs.tables.publish import OWN_TABLES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "infra" / "example" / "onceover.yaml"
DECISIONS = "decisions"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those of the folder."""
    for path, content in {**_reference(), "design/architecture.md": _architecture()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to files of the repository outside the site become their paths."""
    return re.sub(r"\[([^]]*)\]\((?:\.\./)+((?:infra|dags|spark_jobs|tests)/[^)]*)\)", r"\1 (`\2`)", markdown)


def _reference() -> dict[str, str]:
    return {
        "reference/configuration.md": configuration_page(),
        "reference/cli.md": cli_page(),
        "reference/tables.md": tables_page(),
        "reference/verdicts.md": verdicts_page(),
        "reference/expectations.md": expectations_page(),
        "reference/metrics.md": metrics_page(),
    }


def configuration_page() -> str:
    """Every key of the YAML file with type and default, then the commented example."""
    sections = "\n".join(_section(Settings, "", "The whole file"))
    example = EXAMPLE.read_text()
    return (
        "# Configuration\n\nOne YAML file describes a lake. Unknown keys are refused, and so are secrets: "
        f"credentials come from the AWS chain.\n\n{sections}\n\n## Example\n\n```yaml\n{example}```\n"
    )


def _section(model: type[BaseModel], prefix: str, title: str) -> Iterator[str]:
    yield f"## {title}\n\n{_cell(inspect.getdoc(model) or '')}\n"
    yield "| key | type | default |\n|---|---|---|"
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        yield f"| `{prefix}{name}` | {_type_name(field)} | {_default(field)} |"
        nested += [(f"{prefix}{name}", found) for found in _models(field.annotation)]
    yield ""
    for path, found in nested:
        yield from _section(found, f"{path}.", f"`{path}`")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _type_name(field: FieldInfo) -> str:
    annotation = field.annotation
    is_generic = bool(getattr(annotation, "__args__", ()))
    name = str(annotation) if is_generic or not isinstance(annotation, type) else annotation.__name__
    return f"`{re.sub(r'[a-z_]+[.]', '', name)}`".replace("|", "or")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "see below" if isinstance(value, BaseModel) else f"`{_plain(value)}`"


def _plain(value: object) -> str:
    return str(getattr(value, "value", value))


def cli_page() -> str:
    """Every command with its arguments and options, as `--help` shows them."""
    group = typer.main.get_command(app)
    commands: Mapping[str, Any] = group.commands  # type: ignore[attr-defined]
    parts = "\n".join(_command(f"onceover {name}", command) for name, command in sorted(commands.items()))
    codes = "0: good, 1: failed, 2: wrong usage, 3: final, but something is held, 130: interrupted by Ctrl-C"
    return f"# Command line\n\nEvery command has `--help`. Exit codes: {codes}.\n\n{parts}"


def _command(name: str, command: Any) -> str:
    if hasattr(command, "commands"):
        return "\n".join(_command(f"{name} {each}", sub) for each, sub in sorted(command.commands.items()))
    lines = [f"## `{name}`\n\n{_cell(command.help or '')}\n", "| argument or option | meaning |\n|---|---|"]
    for parameter in command.params:
        names = " ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
        required = " (required)" if parameter.required else ""
        lines.append(f"| {names} | {_cell(getattr(parameter, 'help', '') or '')}{required} |")
    return "\n".join(lines) + "\n"


def tables_page() -> str:
    """Every published table: what a row is, its key, its columns."""
    tables = "\n".join(_table(contract) for contract in (RECORDS, *OWN_TABLES.values()))
    return (
        "# Tables\n\nAll are Iceberg tables. `onceover tables` lists them with a query to paste. "
        f"A topic's table has the columns of `records`, and one more per declared JSON field.\n\n{tables}"
    )


def _table(contract: Contract) -> str:
    key = ", ".join(f"`{name}`" for name in contract.key)
    rows = "\n".join(
        f"| `{each.name}` | `{each.type}` | {'yes' if each.nullable else ''} | {_cell(each.meaning)} |"
        for each in contract.columns
    )
    heading = f"## `{contract.name}`\n\n{_cell(contract.meaning)}\n\nKey: {key}\n"
    return f"{heading}\n| column | type | null | meaning |\n|---|---|---|---|\n{rows}\n"


def verdicts_page() -> str:
    """Every verdict with its group and the error that a broker answers."""
    rows = (
        f"| `{each}` | {each.group} | `{each.kafka_error.name}` | {_cell(each.meaning)} |"
        for each in VERDICTS
    )
    return _page(
        "Verdicts",
        "Every batch of a run has exactly one. The counts add up: "
        "in = accepted + duplicate + rejected + corrupt + held.",
        "| verdict | group | a broker answers | meaning |\n|---|---|---|---|",
        rows,
    )


def expectations_page() -> str:
    """Every expectation with its default severity."""
    rows = (f"| `{each}` | {each.default_severity} | {_cell(each.sentence)} |" for each in ExpectationName)
    return _page(
        "Expectations",
        "What must hold before a run is published. `audit.severities` sets each to `critical` (stops the "
        "run), `warning` or `off`.",
        "| expectation | default | what must hold |\n|---|---|---|",
        rows,
    )


def metrics_page() -> str:
    """Every metric with its labels."""
    rows = (
        f"| `{each.name}` | {', '.join(f'`{label}`' for label in each.labels)} | {_cell(each.help)} |"
        for each in METRICS
    )
    return _page(
        "Metrics",
        "All are gauges. Each run replaces the values of the run before it.",
        "| metric | labels | meaning |\n|---|---|---|",
        rows,
    )


def _page(title: str, text: str, heading: str, rows: Iterable[str]) -> str:
    return f"# {title}\n\n{text}\n\n{heading}\n" + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    """One line, with what would end a cell or begin a tag spelled out."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _architecture() -> str:
    """ARCHITECTURE.md, and the list of decision records."""
    records = sorted((ROOT / "docs" / DECISIONS).glob("*.md"))
    listed = "\n".join(f"- [{_title(path)}](../{DECISIONS}/{path.name})" for path in records)
    return f"{(ROOT / 'ARCHITECTURE.md').read_text()}\n## Decisions\n{listed}\n"


def _title(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# ")
