"""Lists for people: a table where the terminal is wide enough for it, else a block of lines per row.

Names, paths, ids and messages come from others. They are shown as they are, never read as markup, and
without anything that a terminal would obey.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_jobs.storage.keys import legible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Sequence[str]


def show_rows(titles: Sequence[str], rows: Sequence[Row], console: "Console | None" = None) -> None:
    """Prints `rows` below `titles`; nothing is cut. In a file or pipe every row is one line of a table."""
    from rich.console import Console  # noqa: PLC0415 — --help does without
    from rich.measure import Measurement  # noqa: PLC0415 — likewise

    out = console or Console(highlight=False)
    table = _table(titles, rows)
    width = Measurement.get(out, out.options.update(max_width=1 << 20), table).maximum
    if not out.is_terminal:
        out.width = max(out.width, width)
    if width <= out.width:
        out.print(table)
    else:
        for row in rows:
            out.print(_block(titles, row))
            out.print()


def _table(titles: Sequence[str], rows: Sequence[Row]) -> "Table":
    from rich import box  # noqa: PLC0415 — --help does without
    from rich.table import Table  # noqa: PLC0415 — likewise
    from rich.text import Text  # noqa: PLC0415 — likewise

    table = Table(*titles, box=box.SIMPLE)
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row))
    return table


def _block(titles: Sequence[str], row: Row) -> "Table":
    """The first cell as a heading, the others below it; empty ones are left out."""
    from rich.table import Table  # noqa: PLC0415 — --help does without
    from rich.text import Text  # noqa: PLC0415 — likewise

    block = Table.grid(padding=(0, 2))
    block.add_column(no_wrap=True, style="dim")
    block.add_column(overflow="fold")
    for number, (title, cell) in enumerate(zip(titles, row, strict=True)):
        if cell:
            block.add_row(title, Text(legible(cell), style="" if number else "bold"))
    return block
