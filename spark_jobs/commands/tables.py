"""`onceover tables`: which table holds which topic, and how to query it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.extras import Extra, require
from spark_jobs.lake.object_store import MOST_SHOWN, legible, printable

if TYPE_CHECKING:
    from spark_jobs.config.settings import Settings
    from spark_jobs.lake.iceberg.holdings import TopicTable

TITLES = ("topic", "table", "rows", "location")
ENGINES = {"python": "Python, with pyiceberg and DuckDB", "duckdb": "DuckDB", "spark": "Spark SQL"}
MOST_AFTER_RUN = 10


def tables(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Only the table of this topic.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the table of each topic: its name, rows and location, and a query to paste.

    Queries are shown for one topic: the first one, or the one that --topic names.
    """
    with reported_failures():
        require(Extra.PIPELINE, "onceover tables")
        from spark_jobs.config.load import load_settings
        from spark_jobs.lake.iceberg.holdings import topic_tables
        from spark_jobs.pipeline.report.topics import queries

        settings = load_settings(config)
        found = [each for each in topic_tables(settings) if topic is None or each.topic == topic]
    if as_json:
        for each in found:
            plain = {"topic": each.topic, "table": each.name, "rows": each.rows, "location": each.location}
            typer.echo(json.dumps({**plain, "metadata": each.metadata, "queries": queries(settings, each)}))
        return
    if not found:
        missing = (
            "no topic has a table yet: the first run creates it"
            if topic is None
            else "this topic has no table"
        )
        typer.echo(f"onceover: {missing}", err=True)
        raise typer.Exit(1)
    show_rows(TITLES, [_row(each) for each in found])
    for engine, query in queries(settings, found[0]).items():
        typer.echo(f"{ENGINES[engine]}:\n{legible(query)}\n")


def emit_tables(settings: "Settings", config: Path) -> None:
    """Prints the first tables on stderr, and the command that shows how to query them."""
    from spark_jobs.lake.iceberg.holdings import topic_tables

    found: Sequence[TopicTable] = list(topic_tables(settings))
    for each in found[:MOST_AFTER_RUN]:
        topic, location = printable(each.topic), printable(each.location, shown=MOST_SHOWN)
        typer.echo(f"  {each.name}  {each.rows:,} rows of topic {topic}, {location}", err=True)
    if len(found) > MOST_AFTER_RUN:
        typer.echo(f"  and {len(found) - MOST_AFTER_RUN:,} more tables", err=True)
    if found:
        name = printable(str(config), shown=MOST_SHOWN)
        typer.echo(f"  queries to paste: onceover tables --config {name}", err=True)


def _row(table: "TopicTable") -> tuple[str, ...]:
    return printable(table.topic), table.name, f"{table.rows:,}", printable(table.location, shown=MOST_SHOWN)
