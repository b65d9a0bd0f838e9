"""`onceover query`: SQL on a Kafka log."""

import csv
import json
import sys
import warnings
from base64 import b64encode
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_jobs.commands.encryption_keys import EncryptionKeys, key_references
from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.reading.errors import TierEnds, TornTail
from spark_jobs.reading.isolation import Isolation


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL.", show_default=False)],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A segment, a partition's directory, a log directory or tiered storage; "
            "also s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    *,
    isolation: Annotated[
        Isolation, typer.Option(help="The isolation level of the consumer whose records are read.")
    ] = Isolation.READ_COMMITTED,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Read this topic alone; may be repeated.")
    ] = None,
    encryption_key: EncryptionKeys = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, with a heading.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write the rows to this Parquet file.")] = None,
) -> None:
    """Query a Kafka log with SQL: tables are records, batches, transactions, aborted, producers and remarks.

    Keys and values are bytes: decode(value) makes text of them, and decode(value)::JSON makes JSON. With
    --json, bytes are in base64.

    Example: onceover query "SELECT topic, count(*) FROM records GROUP BY topic" /var/lib/kafka/data
    """
    given = [
        name for name, value in (("--json", as_json), ("--csv", as_csv), ("--parquet", parquet)) if value
    ]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} exclude each other: choose one form of output")
    from spark_jobs.reading.query import open_log, read_rows, write_parquet

    with reported_failures(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", TornTail)
        warnings.simplefilter("always", TierEnds)
        keys = key_references(encryption_key)
        connection = open_log(path, topics=topics, isolation=isolation, encryption_keys=keys)
        if parquet is not None:
            rows = write_parquet(connection, sql, parquet)
            typer.echo(f"{rows:,} rows written to {parquet}", err=True)
            return
        names, found = read_rows(connection, sql)
        if as_json:
            for row in found:
                typer.echo(json.dumps(dict(zip(names, row, strict=True)), default=_json))
        elif as_csv:
            writer = csv.writer(sys.stdout)
            writer.writerow(names)
            writer.writerows([_text(cell) for cell in row] for row in found)
        else:
            show_rows(names, [[_text(cell) for cell in row] for row in found])


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"warning: {message}", err=True)


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _text(value: Any) -> str:
    """A cell for people: bytes as text where they are UTF-8, else as hexadecimal digits."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return "" if value is None else str(value)
