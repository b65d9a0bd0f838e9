"""How a command fails: one sentence on stderr, and separate exit codes for transient and permanent errors."""

import _thread
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.object_store import legible

EXIT_FAILED = 1
EXIT_HELD = 3
"""The run is final and published, but partitions are held behind offsets that no copy has."""
EXIT_TRANSIENT = 75
"""What sysexits calls a temporary failure: the same command may succeed later."""
EXIT_INTERRUPTED = 128 + signal.SIGINT
SECONDS_TO_LEAVE_FINALISER = 0.05
CONTINUES = "steps that are done stay done; run the same command again to continue from there"


@contextmanager
def reported_failures(*, when_interrupted: str = "run the same command again") -> Iterator[None]:
    """Onceover errors become a message and an exit code; any other exception is a bug and keeps its
    traceback.

    `when_interrupted` is the advice that is printed after Ctrl-C. After an interrupt any error counts as its
    consequence: libraries replace KeyboardInterrupt by errors of their own.
    """
    with _noted_interrupts() as interrupts:
        try:
            yield
        except KeyboardInterrupt:
            _exit_interrupted(when_interrupted)
        except Exception as error:
            if interrupts:
                _exit_interrupted(when_interrupted)
            if not isinstance(error, OnceoverError):
                raise
            typer.echo(f"onceover: {legible(str(error))}", err=True)
            raise typer.Exit(EXIT_TRANSIENT if error.transient else EXIT_FAILED) from None


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Collects interrupts; one that is raised where Python ignores exceptions is raised again."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals are the main thread's
        return

    def note(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before, ignored = signal.signal(signal.SIGINT, note), sys.unraisablehook
    sys.unraisablehook = _interrupt_again
    try:
        yield received
    finally:
        if sys.unraisablehook is _interrupt_again:
            sys.unraisablehook = ignored
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


def _interrupt_again(unraisable: Any) -> None:
    """In a finaliser an exception is only printed: the interrupt would be lost.

    It is raised again a moment later, because this hook would ignore it, too.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        threading.Timer(SECONDS_TO_LEAVE_FINALISER, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


def _exit_interrupted(advice: str) -> NoReturn:
    """Prints one last sentence; errors of threads and finalisers are suppressed from here on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()
    threading.excepthook = sys.unraisablehook = _ignore
    typer.echo(f"onceover: interrupted; {advice}", err=True)
    raise typer.Exit(EXIT_INTERRUPTED) from None


def _ignore(_: object) -> None:
    """A hook that does nothing."""


def survive_broken_connections() -> None:
    """An error instead of SIGPIPE, which the program otherwise dies of when a connection is closed."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def exit_if_held(run_id: str, *, is_held: bool) -> None:
    """A run that is final but holds partitions ends with an exit code of its own."""
    if is_held:
        typer.echo(
            f"onceover: {run_id}: partitions are held behind offsets that no copy has; the table gaps and "
            "`onceover explain` list them; they are published once a copy has the offsets",
            err=True,
        )
        raise typer.Exit(EXIT_HELD)
