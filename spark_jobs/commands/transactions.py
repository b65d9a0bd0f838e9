"""`onceover transactions`: lists undecided transactions, what they hold back, and how to end hanging ones."""

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.lake.object_store import printable

if TYPE_CHECKING:
    from spark_jobs.pipeline.report.transactions_page import ListedTransaction

MOST = 100
TITLES = ("transactional id", "producer", "outcome", "age", "holds back", "partitions", "copies", "why")


def transactions(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also decided transactions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the undecided transactions of the newest run: ongoing, hanging, conflict and ambiguous.

    Ages are measured to the newest time in the copies. For a hanging transaction, the check to run first and
    the command that aborts it are printed below the table.
    """
    with reported_failures():
        from spark_jobs.config.load import load_settings
        from spark_jobs.lake.chain import read_chain
        from spark_jobs.lake.stores import open_lake
        from spark_jobs.pipeline.report.transactions_page import list_transactions, newest_resolved

        lake = open_lake(load_settings(config))
        run_id = newest_resolved(read_chain(lake))
        found = () if run_id is None else list_transactions(lake, run_id, decided=everything)
        if as_json:
            for each in found:
                typer.echo(json.dumps({"run_id": each.run_id, **each.row}))
            return
        worst, count = _worst(found)
    if run_id is None:
        typer.echo("onceover: no run has been resolved yet", err=True)
        raise typer.Exit(1)
    if not count:
        typer.echo(f"{run_id}: {'there is no transaction' if everything else 'all transactions are decided'}")
        return
    show_rows(TITLES, [_row(each) for each in worst])
    for command in _commands(worst):
        typer.echo(command)
    if count > len(worst):
        typer.echo(f"the worst {len(worst)} of {count}; --json shows all")


def _worst(found: "Iterable[ListedTransaction]") -> "tuple[list[ListedTransaction], int]":
    """Those that hold back most, then the oldest; and how many there are in all."""
    count = 0

    def counted() -> "Iterator[ListedTransaction]":
        nonlocal count
        for count, each in enumerate(found, start=1):  # noqa: B007 — returned below
            yield each

    return nlargest(MOST, counted(), key=lambda each: (each.row["held_back"], each.row["age_ms"] or 0)), count


def _commands(listed: "Iterable[ListedTransaction]") -> list[str]:
    return [printable(command, shown=10_000) for each in listed for command in each.row["abort_commands"]]


def _row(each: "ListedTransaction") -> tuple[str, ...]:
    row = each.row
    return (
        "" if row["transactional_id"] is None else printable(row["transactional_id"]),
        f"{row['producer_id']} epoch {row['producer_epoch']}",
        row["outcome"],
        "" if row["age_ms"] is None else str(timedelta(seconds=row["age_ms"] // 1000)),
        f"{row['held_back']:,} offsets" if row["held_back"] else "",
        printable(each.partitions),
        _skew(row),
        row["sentence"].partition(": ")[2],
    )


def _skew(row: "dict[str, Any]") -> str:
    """How the times that copies reach differ, if the coordinator's is older."""
    coordinator, data = row.get("coordinator_time"), row.get("data_time")
    if coordinator is None or data is None or coordinator >= data:
        return ""
    return f"coordinator {timedelta(seconds=-(-(data - coordinator) // 1000))} older"
