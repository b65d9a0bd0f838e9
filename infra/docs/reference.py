"""A hook of MkDocs: writes the reference pages from the code, so that they cannot differ from it."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from reference_configuration import BLANK_LINE, cell, configuration_page, plain

from spark_jobs.cli import app
from spark_jobs.commands.failure import EXIT_FAILED, EXIT_HELD, EXIT_INTERRUPTED, EXIT_TRANSIENT
from spark_jobs.config.audit import ExpectationName
from spark_jobs.kafka.producers.verdict import VERDICTS
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome
from spark_jobs.pipeline.report.metrics import METRICS
from spark_jobs.tables.contract import Column, Contract
from spark_jobs.tables.materialise import RECORDS
from spark_jobs.tables.publish import OWN_TABLES

ROOT = Path(__file__).parents[2]
RULES = ROOT / "infra" / "prometheus" / "rules.yml"
ALERTS_HEAD = (
    "Of `infra/prometheus/rules.yml`, for Prometheus.\n\n| alert | severity | meaning |\n|---|---|---|"
)
DECISIONS = "decisions"
ICEBERG_NAME = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamptz", "date32[day]": "date",
}  # fmt: skip
MORE_COLUMNS = (
    "\nThe table is called like the topic, in lower case and with `_` for what is not a letter or digit. "
    "A topic with `value: json` has one more column per declared field.\n"
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those of the folder."""
    design = {"design/architecture.md": _architecture(), "design/decisions.md": _decisions()}
    for path, content in {**_reference(), **design}.items():
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
        "reference/outcomes.md": outcomes_page(),
        "reference/expectations.md": expectations_page(),
        "reference/metrics.md": metrics_page(),
    }


def tables_page() -> str:
    """Every published table: what a row is, its key, its columns."""
    contracts = {"A topic's table": RECORDS, **{f"`{name}`": each for name, each in OWN_TABLES.items()}}
    tables = "\n".join(_table(title, contract) for title, contract in contracts.items())
    return (
        "# Tables\n\nAll are Iceberg tables. The namespace `topics` has one table per topic, and `onceover` "
        "has Onceover's own. `onceover tables` lists the topics' tables with queries to paste; see "
        f"[Query the tables](../guides/query-tables.md).\n\n{tables}"
    )


def _table(title: str, contract: Contract) -> str:
    key = ", ".join(f"`{name}`" for name in contract.key)
    rows = "\n".join(map(_column, contract.columns))
    heading = f"## {title}\n\n{cell(contract.meaning)}\n\nKey: {key}\n"
    more = MORE_COLUMNS if contract is RECORDS else ""
    return f"{heading}{more}\n| column | type | null | meaning |\n|---|---|---|---|\n{rows}\n"


def _column(column: Column) -> str:
    null = "yes" if column.nullable else ""
    return f"| `{column.name}` | `{_iceberg_type(column.type)}` | {null} | {cell(column.meaning)} |"


def _iceberg_type(arrow: pa.DataType) -> str:
    """The column's type as Iceberg and SQL know it."""
    if pa.types.is_list(arrow):
        return f"list<{_iceberg_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        fields = (arrow.field(number) for number in range(arrow.num_fields))
        return f"struct<{', '.join(f'{each.name}: {_iceberg_type(each.type)}' for each in fields)}>"
    return ICEBERG_NAME.get(str(arrow), str(arrow))


def verdicts_page() -> str:
    """Every verdict with its group and the error that a broker answers."""
    rows = (
        f"| `{each}` | {each.group} | `{each.kafka_error.name}` | {cell(each.meaning)} |" for each in VERDICTS
    )
    return _page(
        "Verdicts",
        "Every batch of a run has exactly one. The counts add up: "
        "in = accepted + duplicate + rejected + corrupt + held.",
        "| verdict | group | a broker answers | meaning |\n|---|---|---|---|",
        rows,
    )


def outcomes_page() -> str:
    """Every outcome of a transaction, and every kind of evidence."""
    outcomes = "\n".join(f"| `{each}` | {cell(each.meaning)} |" for each in Outcome)
    evidence = "\n".join(f"| `{each}` | {cell(_evidence_meanings()[each.name])} |" for each in Evidence)
    return (
        "# Transaction outcomes\n\nEvery transaction of a run has exactly one, in the table `transactions`. "
        "See [Transactions](../concepts/transactions.md).\n\n"
        f"| outcome | meaning |\n|---|---|\n{outcomes}\n\n"
        "## Evidence\n\nWhy an outcome is what it is; a transaction may have several.\n\n"
        f"| evidence | meaning |\n|---|---|\n{evidence}\n"
    )


@cache
def _evidence_meanings() -> dict[str, str]:
    """By name the sentence below each member of the enumeration."""
    [members] = ast.parse(inspect.getsource(Evidence)).body
    found: dict[str, str] = {}
    name = ""
    for each in members.body if isinstance(members, ast.ClassDef) else ():
        match each:
            case ast.Assign(targets=[ast.Name(id=name)]):
                pass
            case ast.Expr(value=ast.Constant(value=str(sentence))) if name:
                found[name] = sentence
    return found


def expectations_page() -> str:
    """Every expectation with its default severity."""
    rows = (f"| `{each}` | {each.default_severity} | {cell(each.sentence)} |" for each in ExpectationName)
    return _page(
        "Expectations",
        "What must hold before a run is published. `audit.severities` sets each to `critical` (stops the "
        "run), `warning` or `off`.",
        "| expectation | default | what must hold |\n|---|---|---|",
        rows,
    )


def metrics_page() -> str:
    """Every metric with its labels, and every alert."""
    rows = (
        f"| `{each.name}` | {', '.join(f'`{label}`' for label in each.labels)} | {cell(each.help)} |"
        for each in METRICS
    )
    metrics = _page(
        "Metrics",
        "All are gauges: each run replaces the values of the run before it. See [Monitoring](../metrics.md).",
        "| metric | labels | meaning |\n|---|---|---|",
        rows,
    )
    alerts = "\n".join(map(_alert, yaml.safe_load(RULES.read_text())["groups"][0]["rules"]))
    return f"{metrics}\n## Alerts\n\n{ALERTS_HEAD}\n{alerts}\n"


def _alert(rule: Mapping[str, Any]) -> str:
    notes = rule["annotations"]
    said = cell(f"{notes['summary']} {notes['description']}")
    return f"| `{rule['alert']}` | {rule['labels']['severity']} | {said} |"


def _page(title: str, text: str, heading: str, rows: Iterable[str]) -> str:
    return f"# {title}\n\n{text}\n\n{heading}\n" + "\n".join(rows) + "\n"


def _architecture() -> str:
    """ARCHITECTURE.md, with links as the site has them."""
    return (ROOT / "ARCHITECTURE.md").read_text().replace("](docs/", "](../")


def _decisions() -> str:
    """The list of decision records."""
    records = sorted((ROOT / "docs" / DECISIONS).glob("[0-9]*.md"))
    listed = "\n".join(f"- [{_title(path)}](../{DECISIONS}/{path.name})" for path in records)
    return f"# Decisions\n\nWhy it is built this way, one page per choice.\n\n{listed}\n"


def _title(path: Path) -> str:
    """Number and sentence of a record, whichever way its heading spells the number."""
    sentence = re.sub(r"^#\s*\d+[.:·\s]+", "", path.read_text().splitlines()[0])
    return f"{int(path.name[:4])}. {sentence}"


EXIT_CODES = {
    0: "Done.",
    EXIT_FAILED: "Failed; the message says why. The same command fails again until the cause is removed.",
    2: "Wrong usage: an unknown command or option, or a value that is not allowed.",
    EXIT_HELD: "The run is final and published, but partitions are held behind offsets that no copy has.",
    EXIT_TRANSIENT: "Failed for now, such as a busy lake or a store that does not answer: try again later.",
    EXIT_INTERRUPTED: "Interrupted by Ctrl-C. Steps that are done stay done.",
}
EMPTY: tuple[object, ...] = (None, False, "", [], ())


def cli_page() -> str:
    """The commands at a glance, the exit codes, then every command with its arguments and options."""
    commands = list(_commands("onceover", typer.main.get_command(app)))
    glance = "\n".join(
        f"| [`{name}`](#{name.replace(' ', '-')}) | {_first(each)} |" for name, each in commands
    )
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts = "\n".join(_command(name, each) for name, each in commands)
    return (
        "# Command line\n\nEvery command has `--help`. `python -m spark_jobs` is the same as `onceover`.\n\n"
        f"| command | what it does |\n|---|---|\n{glance}\n\n"
        f"## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n{parts}"
    )


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """All commands below `command`, by the words that call them."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, sub in sorted(command.commands.items()):
        yield from _commands(f"{name} {each}", sub)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _first(command: Any) -> str:
    return cell((command.help or "").partition(BLANK_LINE)[0])


def _command(name: str, command: Any) -> str:
    arguments = "".join(
        f" {_argument(each)}" for each in command.params if each.param_type_name == "argument"
    )
    paragraphs = BLANK_LINE.join(cell(each) for each in (command.help or "").split(BLANK_LINE))
    lines = [f"## `{name}{arguments}` {{ #{_anchor(name)} }}\n\n{paragraphs}\n"]
    options = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
    if options:
        lines.append("| option | meaning | default |\n|---|---|---|")
    for each in options:
        names = " ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        lines.append(f"| {names} | {cell(each.help or '')}{_choices(each)} | {_option_default(each)} |")
    return "\n".join(lines) + "\n"


def _argument(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name).upper()
    return f"{shown}…" if parameter.nargs < 0 else shown


def _choices(parameter: Any) -> str:
    kind = type(parameter.default)
    return f" One of {', '.join(f'`{each}`' for each in kind)}." if issubclass(kind, StrEnum) else ""


def _option_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in EMPTY else f"`{plain(parameter.default)}`"
