"""`onceover runs`: lists the runs of a lake."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.flow import Step

if TYPE_CHECKING:
    from spark_jobs.lake.ledger import LedgerLine

ACCEPTED = "accepted"
TITLES = ("run", "status", "last step", "accepted batches", "started", "attempts", "message", "reason")


def runs(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the runs of the lake: status, last step, start and message of each."""
    with reported_failures():
        from spark_jobs.config.load import load_settings
        from spark_jobs.lake.ledger import list_runs
        from spark_jobs.lake.stores import open_lake

        lines = list_runs(open_lake(load_settings(config)))
    if as_json:
        for line in lines:
            typer.echo(json.dumps({**asdict(line), "is_held": line.is_held}, default=str))
    else:
        show_rows(TITLES, [_row(line) for line in lines])


def _row(line: "LedgerLine") -> tuple[str, ...]:
    counts = {step.step: step.counts for step in line.steps}
    accepted = counts.get(Step.ADMIT, {}).get(ACCEPTED)
    return (
        line.run_id,
        f"{line.status}, held" if line.is_held else line.status,
        line.steps[-1].step if line.steps else Step.STAGE,
        "" if accepted is None else f"{accepted:,}",
        line.started_at[: len("2024-05-01T12:00:00")],
        str(line.attempts),
        line.message,
        line.reason,
    )
