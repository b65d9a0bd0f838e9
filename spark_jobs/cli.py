"""The command line: `onceover` and its commands. Each imports what is heavy when it runs."""

import signal
from importlib.metadata import version as package_version
from typing import Annotated

import typer

from spark_jobs.commands.backfill import backfill
from spark_jobs.commands.bundle import bundle
from spark_jobs.commands.check import check
from spark_jobs.commands.dashboard import dashboard
from spark_jobs.commands.expire import expire
from spark_jobs.commands.explain import explain
from spark_jobs.commands.inspect import inspect
from spark_jobs.commands.lake import lake
from spark_jobs.commands.log import log
from spark_jobs.commands.repair import repair
from spark_jobs.commands.replay import replay
from spark_jobs.commands.rollback import rollback
from spark_jobs.commands.run import run
from spark_jobs.commands.runs import runs
from spark_jobs.commands.sample import sample
from spark_jobs.commands.tables import tables
from spark_jobs.commands.transactions import transactions

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onceover {package_version('onceover')}")
        raise typer.Exit


@app.callback()
def onceover(
    *, version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False
) -> None:
    """Exactly-once tables from raw Kafka producer output, every night, without a broker."""


app.command()(backfill)
app.command()(bundle)
app.command()(check)
app.command()(dashboard)
app.command()(expire)
app.command()(explain)
app.command()(inspect)
app.add_typer(lake, name="lake")
app.command()(log)
app.command()(repair)
app.command()(replay)
app.command()(rollback)
app.command()(run)
app.command()(runs)
app.command()(sample)
app.command()(tables)
app.command()(transactions)


def main() -> None:
    """The `onceover` program; a reader that has seen enough, such as `head`, ends it silently."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    app()
