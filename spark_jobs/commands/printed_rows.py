"""Lists for people: a table where the terminal is wide enough for it, else a block of lines per row.

Names, paths, ids and messages are foreign input. They are never read as markup, and are shown without
terminal control sequences.
"""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from spark_jobs.lake.object_store import legible

Row = Sequence[str]


def show_rows(titles: Sequence[str], rows: Sequence[Row], console: Console | None = None) -> None:
    """Prints `rows` below `titles`; nothing is cut. In a file or pipe every row is one line of a table."""
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


def _table(titles: Sequence[str], rows: Sequence[Row]) -> Table:
    table = Table(*titles, box=box.SIMPLE)
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row))
    return table


def _block(titles: Sequence[str], row: Row) -> Table:
    """The first cell as a heading, the others below it; empty ones are left out."""
    block = Table.grid(padding=(0, 2))
    block.add_column(no_wrap=True, style="dim")
    block.add_column(overflow="fold")
    for number, (title, cell) in enumerate(zip(titles, row, strict=True)):
        if cell:
            block.add_row(title, Text(legible(cell), style="" if number else "bold"))
    return block
