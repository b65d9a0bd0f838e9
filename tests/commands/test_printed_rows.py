"""Texts of others are shown as they are, whole at every width, and obeyed by nothing."""

from io import StringIO

import pytest
from rich.console import Console

from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.lake.object_store import legible
from spark_jobs.progress import RunProgress

HOSTILE = ["[errno 2]", "[/b]", "[bold]x[/bold]", "\x1b[31mred\x1b[0m", "a\rb", "\x07bell", "[link=x]y"]
SENTENCE = "the coordinator's log has it as Ongoing, and its timeout of 60,000 ms has not passed yet"


def _shown(*cells: str, width: int, is_terminal: bool = True) -> str:
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=is_terminal, color_system=None, highlight=False)
    show_rows(["name", *(f"title {n}" for n in range(1, len(cells)))], [cells], console)
    return out.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_text_is_read_as_markup_or_obeyed(text: str, width: int, is_terminal: bool) -> None:
    shown = _shown(text, "second", text, width=width, is_terminal=is_terminal)
    for line in legible(text).splitlines():
        assert shown.count(line) >= 2
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\r" not in shown


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_shows_all_of_it(width: int) -> None:
    shown = _shown("orders-0", "ongoing", SENTENCE, "x" * 150, width=width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    unwrapped = "".join(shown.split())
    assert SENTENCE.replace(" ", "") in unwrapped
    assert "x" * 150 in unwrapped


def test_a_file_has_a_row_per_line_however_long() -> None:
    shown = _shown("orders-0", SENTENCE, "x" * 300, width=80, is_terminal=False)
    [line] = [line for line in shown.splitlines() if "orders-0" in line]
    assert SENTENCE in line
    assert "x" * 300 in line


@pytest.mark.parametrize("text", HOSTILE)
def test_a_run_shows_texts_of_others_as_they_are(text: str) -> None:
    out = StringIO()
    progress = RunProgress(
        Console(file=out, force_terminal=True, color_system=None, width=80, soft_wrap=True)
    )
    progress.on_progress(text)
    progress.remark([f"object {text} is set aside"])
    for line in legible(f"object {text} is set aside").splitlines():
        assert line in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()
    assert "\x07" not in out.getvalue()
