"""The page on the command line: commands at a glance, exit codes, arguments and options."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import typer
from reference_text import BLANK_LINE, cell, plain

from spark_jobs.cli import app
from spark_jobs.commands.failure import EXIT_FAILED, EXIT_HELD, EXIT_INTERRUPTED, EXIT_TRANSIENT

EXIT_CODES = {
    0: "Done.",
    EXIT_FAILED: "Failed; the message says why. The same command fails again until the cause is removed.",
    2: "Wrong usage: an unknown command or option, or a value that is not allowed.",
    EXIT_HELD: "The run is final and published, but partitions are held behind offsets that no copy has.",
    EXIT_TRANSIENT: "Failed for now, such as a busy lake or a store that does not answer: try again later.",
    EXIT_INTERRUPTED: "Interrupted by Ctrl-C. Steps that are done stay done.",
}
EMPTY: tuple[object, ...] = (None, False, "", [], ())


def cli_page() -> str:
    """The commands at a glance, the exit codes, then every command with its arguments and options."""
    commands = list(_commands("onceover", typer.main.get_command(app)))
    glance = "\n".join(
        f"| [`{name}`](#{name.replace(' ', '-')}) | {_first(each)} |" for name, each in commands
    )
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts = "\n".join(_command(name, each) for name, each in commands)
    return (
        "# Command line\n\nEvery command has `--help`. `python -m spark_jobs` is the same as `onceover`.\n\n"
        f"| command | what it does |\n|---|---|\n{glance}\n\n"
        f"## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n{parts}"
    )


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """All commands below `command`, by the words that call them."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, sub in sorted(command.commands.items()):
        yield from _commands(f"{name} {each}", sub)


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _first(command: Any) -> str:
    return cell((command.help or "").partition(BLANK_LINE)[0])


def _command(name: str, command: Any) -> str:
    arguments = "".join(
        f" {_argument(each)}" for each in command.params if each.param_type_name == "argument"
    )
    paragraphs = BLANK_LINE.join(cell(each) for each in (command.help or "").split(BLANK_LINE))
    lines = [f"## `{name}{arguments}` {{ #{_anchor(name)} }}\n\n{paragraphs}\n"]
    options = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
    if options:
        lines.append("| option | meaning | default |\n|---|---|---|")
    for each in options:
        names = " ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        lines.append(f"| {names} | {cell(each.help or '')}{_choices(each)} | {_option_default(each)} |")
    return "\n".join(lines) + "\n"


def _argument(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name).upper()
    return f"{shown}…" if parameter.nargs < 0 else shown


def _choices(parameter: Any) -> str:
    kind = type(parameter.default)
    return f" One of {', '.join(f'`{each}`' for each in kind)}." if issubclass(kind, StrEnum) else ""


def _option_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in EMPTY else f"`{plain(parameter.default)}`"
