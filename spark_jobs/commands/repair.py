"""`onceover repair`: restores tables and runs that the catalog has lost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import EXIT_FAILED, reported_failures
from spark_jobs.extras import Extra, require

if TYPE_CHECKING:
    from spark_jobs.operations.repair import Repair


def repair(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Restore tables and runs that the chain lists as published and the catalog has lost.

    The newest metadata of each table in the lake is registered. Runs that are still missing are published
    again from the run folders. What cannot be restored is listed, and the exit code is 1.
    """
    with reported_failures():
        require(Extra.PIPELINE, "onceover repair")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.repair import RepairKind, plan_repair
        from spark_jobs.operations.repair import repair as repair_lake
        from spark_jobs.progress import RunProgress

        settings = load_settings(config)
        done = plan_repair(settings) if dry_run else repair_lake(settings, RunProgress().on_progress)
    for each in done:
        typer.echo(json.dumps(_plain(each)) if as_json else str(each))
    lost = sum(each.kind is RepairKind.LOST for each in done)
    if not as_json:
        status = "would be done" if dry_run else "done"
        nothing = "the tables hold what the chain lists as published, nothing to repair"
        typer.echo(f"{len(done) - lost} repairs {status}, {lost} not possible" if done else nothing)
    if lost:
        raise typer.Exit(EXIT_FAILED)


def _plain(each: "Repair") -> dict[str, object]:
    run_id, rows = (each.share.run_id, each.share.rows) if each.share else (None, None)
    return {
        "kind": each.kind,
        "topic": each.table.topic,
        "table": ".".join(each.name) or each.table.own or None,
        "metadata": each.metadata or None,
        "run_id": run_id,
        "rows": rows,
        "gone": each.gone or None,
    }
