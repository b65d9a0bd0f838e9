"""The command line: `onceover` and its commands. The module of a command is imported when it is called."""

import signal
from collections import UserDict
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = (
    "backfill",
    "bundle",
    "check",
    "check-capture",
    "copy",
    "dashboard",
    "expire",
    "explain",
    "inspect",
    "lake",
    "log",
    "query",
    "repair",
    "replay",
    "rollback",
    "run",
    "runs",
    "sample",
    "tables",
    "tap",
    "transactions",
)
"""Modules of `spark_jobs.commands`, with `_` for `-`; each has a function or group of its name."""


class LazyCommands(UserDict[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if name in self.data and self.data[name] is None:
            self.data[name] = _load(name)
        return super().__getitem__(name)


def _load(name: str) -> Any:
    module = name.replace("-", "_")
    found = getattr(import_module(f"spark_jobs.commands.{module}"), module)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return get_command(alone)


class LazyGroup(TyperGroup):
    """Lists commands by the docstrings in their source, so that --help imports none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 — a method of the library's
        """All names, in order."""
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The page of `onceover --help`."""
        listed = copy(self)
        listed.commands = {name: TyperCommand(name, help=docstring_of(name)) for name in COMMANDS}
        super(LazyGroup, listed).format_help(ctx, formatter)


def docstring_of(name: str) -> str:
    """That of the function `name`, or of a group's callback `_name`, in the command's module."""
    import ast  # noqa: PLC0415 — only --help reads sources

    module = name.replace("-", "_")
    tree = ast.parse((Path(__file__).parent / "commands" / f"{module}.py").read_text(encoding="utf-8"))
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    return ast.get_docstring(functions.get(module) or functions[f"_{module}"]) or ""


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as version_of  # noqa: PLC0415 — slow to load, for this alone

        typer.echo(f"onceover {version_of('onceover')}")
        raise typer.Exit


@app.callback()
def onceover(
    *, version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False
) -> None:
    """Exactly-once tables from raw Kafka data, in daily runs, without guessing."""


def main() -> None:
    """The `onceover` program; a reader that has seen enough, such as `head`, ends it silently."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    app()
