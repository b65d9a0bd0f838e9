"""`onceover expire`: removes old runs, staged objects and snapshots."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.extras import Extra, require

if TYPE_CHECKING:
    from spark_jobs.operations.expire import ExpiryPlan

TITLES = ("what", "name", "how many", "bytes")


def expire(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Remove what is older than the configured `retention` and no longer needed.

    The state chain, held and parked batches, current table snapshots, user-defined tags and undecided
    quarantine are kept.
    """
    with reported_failures():
        require(Extra.PIPELINE, "onceover expire")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.expire import expire as expire_lake
        from spark_jobs.operations.expire import plan_expiry

        settings = load_settings(config)
        plan = plan_expiry(settings) if dry_run else expire_lake(settings)
    if as_json:
        typer.echo(json.dumps(_plain(plan)))
        return
    if plan.tables or plan.folders or plan.objects:
        show_rows(TITLES, list(_rows(plan)))
    typer.echo(f"{plan.bytes:,} bytes {'would be removed' if dry_run else 'removed'}")


def _plain(plan: "ExpiryPlan") -> dict[str, object]:
    return {
        "tables": [
            {"table": ".".join(each.name), "tags": each.tags, "snapshots": each.snapshots}
            for each in plan.tables
        ],
        "runs": [
            {"run_id": each.run_id, "files": len(each.files), "bytes": sum(file.size for file in each.files)}
            for each in plan.folders
        ],
        "objects": {"count": len(plan.objects), "bytes": sum(each.size for each in plan.objects)},
        "bytes": plan.bytes,
    }


def _rows(plan: "ExpiryPlan") -> Iterator[tuple[str, ...]]:
    for each in plan.tables:
        yield "table", ".".join(each.name), f"{len(each.tags)} tags, {len(each.snapshots)} snapshots", ""
    for folder in plan.folders:
        size = sum(file.size for file in folder.files)
        yield "run", folder.run_id, f"{len(folder.files)} files", f"{size:,}"
    if plan.objects:
        size = sum(each.size for each in plan.objects)
        yield "staged objects", "", str(len(plan.objects)), f"{size:,}"
