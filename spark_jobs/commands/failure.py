"""How a command fails: one sentence on stderr, and an exit code that says whether trying again can help."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from spark_jobs.protocol.errors import OnceoverError

EXIT_FAILED = 1
EXIT_TRANSIENT = 75
"""What sysexits calls a temporary failure: the same command may succeed later."""


@contextmanager
def told_failures() -> Iterator[None]:
    """Errors of our own family become a message and an exit code; anything else is a bug and shows itself."""
    try:
        yield
    except OnceoverError as error:
        typer.echo(f"onceover: {error}", err=True)
        raise typer.Exit(EXIT_TRANSIENT if error.transient else EXIT_FAILED) from None
