"""`onceover replay`: chooses quarantined batches and records for the next run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.extras import Extra, require
from spark_jobs.lake.object_store import MOST_SHOWN, printable

if TYPE_CHECKING:
    from spark_jobs.operations.replay import Choice

MOST = 100
TITLES = ("partition", "kind", "verdict", "offset", "why", "where", "replay")


def replay(
    run_id: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only this kind: rejected, corrupt or unfit.")
    ] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="Only this offset.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Only this object.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored with the decision.")] = "",
    only_list: Annotated[bool, typer.Option("--list", help="List what can be replayed.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be replayed; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Replay chosen batches and records of a run's quarantine in the next run.

    A rejected batch is admitted again before all new batches of its partition; a value that did not match
    its schema is decoded again and keeps its offset.
    """
    if not (reason or only_list or dry_run):
        raise typer.BadParameter("give a reason with --reason, or list the candidates with --list")
    with reported_failures():
        require(Extra.PIPELINE, "onceover replay")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.replay import Selection, decide, list_choices
        from spark_jobs.tables.materialise import QuarantineKind

        if kind is not None and kind not in set(QuarantineKind):
            raise typer.BadParameter(f"--kind is one of {', '.join(QuarantineKind)}")
        chosen = QuarantineKind(kind) if kind else None
        selection = Selection(
            run_id=run_id, topic=topic, partition=partition, kind=chosen, offset=offset, path=path
        )
        settings = load_settings(config)
        if only_list or dry_run:
            choices, decided = list_choices(settings, selection), 0
        else:
            choices, replays = decide(settings, selection, why=reason)
            decided = len(replays)
    _show(choices, as_json=as_json)
    open_choices = sum(not each.refusal for each in choices)
    if only_list or dry_run:
        typer.echo(
            f"{open_choices} of {len(choices)} can be replayed; the next run judges them again", err=True
        )
        return
    typer.echo(f"{open_choices} of {len(choices)} go into the next run, in {decided} batches", err=True)
    if not decided:
        raise typer.Exit(1)


def _show(choices: "list[Choice]", *, as_json: bool) -> None:
    if as_json:
        for choice in choices:
            typer.echo(json.dumps(_plain(choice), default=str))
        return
    show_rows(TITLES, [_row(choice) for choice in choices[:MOST]])
    if len(choices) > MOST:
        typer.echo(f"the first {MOST} of {len(choices)}; --json shows all")


def _plain(choice: "Choice") -> dict[str, object]:
    row = {name: value for name, value in choice.row.items() if name != "bytes"}
    return {**row, "way": choice.way, "refusal": choice.refusal}


def _row(choice: "Choice") -> tuple[str, ...]:
    row = choice.row
    return (
        printable(f"{row['topic']}-{row['partition']}"),
        row["kind"],
        row["verdict"],
        "" if row["offset"] is None else str(row["offset"]),
        row["reason"] or "",
        printable(f"{row['source']}/{row['path']}", shown=MOST_SHOWN) + f" at byte {row['position']}",
        choice.way.value if choice.way else f"no: {choice.refusal}",
    )
