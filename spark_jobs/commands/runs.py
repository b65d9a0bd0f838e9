"""`onceover runs`: the ledger."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import told_failures

if TYPE_CHECKING:
    from rich.table import Table

    from spark_jobs.storage.ledger import LedgerLine

WIDTH_OF_A_FILE = 180
"""Columns to use where no terminal says."""


def runs(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the runs of the lake: which are final, how far the others came, and when."""
    from rich.console import Console  # noqa: PLC0415 — --help does without

    from spark_jobs.config.load import load_settings  # noqa: PLC0415 — likewise
    from spark_jobs.storage.ledger import list_runs  # noqa: PLC0415 — likewise
    from spark_jobs.storage.stores import open_lake  # noqa: PLC0415 — likewise

    with told_failures():
        lines = list_runs(open_lake(load_settings(config)))
    if as_json:
        for line in lines:
            typer.echo(json.dumps(asdict(line), default=str))
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE).print(_table(lines))


def _table(lines: "tuple[LedgerLine, ...]") -> "Table":
    from rich import box  # noqa: PLC0415 — --help does without
    from rich.table import Table  # noqa: PLC0415 — likewise

    table = Table(
        "run", "status", "last step", "batches", "started", "attempts", "message", "why", box=box.SIMPLE
    )
    for line in lines:
        counts = {name: count for step in line.steps for name, count in step.counts.items()}
        last = line.steps[-1].step if line.steps else "stage"
        batches = f"{counts['batches']:,}" if "batches" in counts else ""
        table.add_row(
            line.run_id,
            line.status,
            last,
            batches,
            line.started_at[: len("2024-05-01T12:00:00")],
            str(line.attempts),
            line.message,
            line.reason,
        )
    return table
