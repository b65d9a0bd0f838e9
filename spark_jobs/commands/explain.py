"""`onceover explain`: why a batch was accepted or refused."""

import json
from collections import deque
from datetime import datetime
from itertools import chain as chained
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.object_store import MOST_SHOWN, legible, printable

if TYPE_CHECKING:
    from spark_jobs.explain import Answer, GapAnswer

MOST = 100
TITLES = ("run date", "batch", "verdict", "offset", "why", "where")


def explain(
    topic: Annotated[str, typer.Argument(show_default=False)],
    partition: Annotated[int, typer.Argument(min=0, show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="Only batches of this producer.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", help="Only the batch or gap at this offset.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only the verdicts of this run.")] = None,
    date: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], help="Only the verdicts of the run of this date."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="How many to show, the newest; --json shows all.")
    ] = MOST,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show why batches of a partition were accepted or refused, by default in all final runs."""
    from spark_jobs.config.load import load_settings
    from spark_jobs.explain import Question, runs_of
    from spark_jobs.explain import explain as explain_run
    from spark_jobs.lake.chain import read_chain
    from spark_jobs.lake.stores import open_lake

    question = Question(
        partition=TopicPartition(topic, partition),
        producer_id=producer_id,
        offset=offset,
        run_id=run_id,
        day=date.date() if date else None,
    )
    with reported_failures():
        lake = open_lake(load_settings(config))
        runs = runs_of(question, read_chain(lake))
        found = chained.from_iterable(explain_run(lake, question, run) for run in runs)
        if as_json:
            for answer in found:
                typer.echo(_line(answer))
            return
        last = deque(enumerate(found, start=1), maxlen=most)
    if not last:
        typer.echo(f"onceover: {printable(str(question.partition))}: no final run has such a batch", err=True)
        raise typer.Exit(1)
    show_rows(TITLES, [_row(answer) for _, answer in last])
    if last[0][0] > 1:
        typer.echo(f"the newest {len(last)} of {last[-1][0]}; --most or --json shows more")
    if len(last) == 1:
        typer.echo(legible(last[0][1].sentence))


def _line(answer: "Answer | GapAnswer") -> str:
    identity = {"run_id": answer.run_id, "place": answer.place, "sentence": answer.sentence}
    return json.dumps({**identity, **answer.row})


def _row(answer: "Answer | GapAnswer") -> tuple[str, ...]:
    offset = "" if answer.row["offset"] is None else str(answer.row["offset"])
    why, where = answer.row["reason"] or "", printable(answer.place, shown=MOST_SHOWN)
    return answer.run_id[:10], answer.what, answer.row["verdict"], offset, why, where
