"""`onceover explain`: why a batch was taken or refused."""

import json
from collections import deque
from datetime import datetime
from itertools import chain as chained
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import told_failures

if TYPE_CHECKING:
    from rich.table import Table

    from spark_jobs.explaining.answer import Answer

MOST = 100


def explain(
    topic: Annotated[str, typer.Argument(show_default=False)],
    partition: Annotated[int, typer.Argument(min=0, show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    producer_id: Annotated[int | None, typer.Option("--producer-id", help="Only of this producer.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="Only what this offset is about.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="As this run decided it.")] = None,
    date: Annotated[
        datetime | None, typer.Option("--date", formats=["%Y-%m-%d"], help="As this night decided it.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="The newest so many; --json gives all.")] = MOST,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show why batches of a partition were taken or refused, over all final nights unless told otherwise."""
    from rich.console import Console  # noqa: PLC0415 — --help does without

    from spark_jobs.config.load import load_settings  # noqa: PLC0415 — likewise
    from spark_jobs.explaining.answer import explain as explain_run  # noqa: PLC0415 — likewise
    from spark_jobs.explaining.question import Question, runs_of  # noqa: PLC0415 — likewise
    from spark_jobs.protocol.topic_partition import TopicPartition  # noqa: PLC0415 — likewise
    from spark_jobs.storage.chain import read_chain  # noqa: PLC0415 — likewise
    from spark_jobs.storage.stores import open_lake  # noqa: PLC0415 — likewise

    question = Question(
        partition=TopicPartition(topic, partition),
        producer_id=producer_id,
        offset=offset,
        run_id=run_id,
        day=date.date() if date else None,
    )
    with told_failures():
        lake = open_lake(load_settings(config))
        runs = runs_of(question, read_chain(lake))
        found = chained.from_iterable(explain_run(lake, question, run) for run in runs)
        if as_json:
            for answer in found:
                typer.echo(_line(answer))
            return
        last = deque(enumerate(found, start=1), maxlen=most)
    if not last:
        typer.echo(f"onceover: {question.partition}: no final night has such a batch", err=True)
        raise typer.Exit(1)
    console = Console(soft_wrap=True)
    console.print(_table([answer for _, answer in last]))
    if last[0][0] > 1:
        console.print(f"the newest {len(last)} of {last[-1][0]}; --most or --json shows more")
    if len(last) == 1:
        console.print(last[0][1].sentence, markup=False)


def _line(answer: "Answer") -> str:
    told = {"run_id": answer.run_id, "place": answer.place, "sentence": answer.sentence}
    return json.dumps({**told, **answer.row})


def _table(answers: "list[Answer]") -> "Table":
    from rich import box  # noqa: PLC0415 — --help does without
    from rich.markup import escape  # noqa: PLC0415 — likewise
    from rich.table import Table  # noqa: PLC0415 — likewise

    table = Table("night", "what came", "verdict", "offset", "why", "where", box=box.SIMPLE)
    for answer in answers:
        offset = "" if answer.row["offset"] is None else str(answer.row["offset"])
        cells = (answer.run_id[:10], answer.what, answer.row["verdict"], offset)
        table.add_row(*cells, escape(answer.row["reason"] or ""), escape(answer.place))
    return table
