"""How a command fails: one sentence on stderr, and an exit code that says whether trying again can help."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.keys import legible

EXIT_FAILED = 1
EXIT_HELD = 3
"""The run is final and published, but partitions are held behind offsets that no copy has."""
EXIT_TRANSIENT = 75
"""What sysexits calls a temporary failure: the same command may succeed later."""
EXIT_INTERRUPTED = 128 + signal.SIGINT
GOES_ON = "steps that are done stay done; run the same command again to go on from there"


@contextmanager
def told_failures(*, when_interrupted: str = "run the same command again") -> Iterator[None]:
    """Errors of our own family become a message and an exit code; anything else is a bug and shows itself.

    `when_interrupted` says after Ctrl-C what a person can do.
    """
    try:
        yield
    except OnceoverError as error:
        typer.echo(f"onceover: {legible(str(error))}", err=True)
        raise typer.Exit(EXIT_TRANSIENT if error.transient else EXIT_FAILED) from None
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is to end
        typer.echo(f"onceover: interrupted; {when_interrupted}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def exit_if_held(run_id: str, *, is_held: bool) -> None:
    """A run that is final but holds partitions ends with an exit code of its own."""
    if is_held:
        typer.echo(
            f"onceover: {run_id}: partitions are held behind offsets that no copy has; the table gaps and "
            "`onceover explain` say which, and they are published once a copy brings the offsets",
            err=True,
        )
        raise typer.Exit(EXIT_HELD)
