"""`onceover inspect`: what Kafka wrote, as tables or JSON lines."""

import sys
from typing import Annotated

import typer

from spark_jobs.commands.encryption_keys import EncryptionKeys, key_references
from spark_jobs.commands.failure import reported_failures
from spark_jobs.reading.isolation import Isolation


def inspect(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Files that Kafka wrote, a partition's directory (orders-0), a whole log directory, or "
            "tiered storage; also s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    *,
    records: Annotated[bool, typer.Option("--records", help="Show records instead of batches.")] = False,
    isolation: Annotated[
        Isolation, typer.Option(help="The isolation level of the consumer whose view is shown.")
    ] = Isolation.READ_UNCOMMITTED,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    encryption_key: EncryptionKeys = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="A progress bar.", show_default="on a terminal"),
    ] = None,
) -> None:
    """Show what Kafka wrote: a segment, snapshot, index, checkpoint, partition or whole log directory.

    A log directory gives a line per partition, a partition its segments, producers and open transactions, a
    segment its batches; with --records their records, as a consumer of that isolation gets them.

    Remarks list what a broker would reject or misread. The exit code is 1 if a path is no Kafka file, or if
    records that were asked for could not be read.

    Example: onceover inspect data/orders-0 --records --isolation read_committed --json > records.jsonl
    """
    from spark_jobs.inspect.inspector import Options
    from spark_jobs.inspect.places import inspect_places
    from spark_jobs.inspect.printers import JsonPrinter, TextPrinter

    options = Options(records=records, isolation=isolation, as_json=as_json, progress=progress)
    out = sys.stdout.buffer
    printer = JsonPrinter(out) if as_json else TextPrinter(out, is_terminal=sys.stdout.isatty())
    with reported_failures():
        keys = key_references(encryption_key)
        shown = inspect_places(paths, keys, options, printer, lambda text: typer.echo(text, err=True))
        out.flush()
    if not shown:
        raise typer.Exit(1)
