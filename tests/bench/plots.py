"""The results as pictures: plain SVG, so that pages show them anywhere and differences can be read."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from tests.bench.page import Kept, rows_of
from tests.bench.workspace import ROOT, Row

PICTURES = ROOT / "docs" / "img"
WIDTH, BAR, GAP, LEFT = 760, 22, 10, 250
INK, MUTED, OURS, THEIRS = "#1f2933", "#7b8794", "#0f766e", "#9aa5b1"
LINES = ("#0f766e", "#b45309", "#4338ca", "#be123c", "#0369a1", "#4d7c0f", "#7b8794")
SIDE, MARGIN = 360, 60


def write_plots(kept: Kept, folder: Path = PICTURES) -> None:
    """Throughput and growth, as far as they were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    bars = list(throughput(kept))
    if bars:
        (folder / "throughput.svg").write_text(bar_chart("Records per second, in millions", bars))
    if "growth" in kept:
        (folder / "growth.svg").write_text(growth_chart(rows_of(kept, "growth")))


def throughput(kept: Kept) -> Iterator[tuple[str, float, bool]]:
    """(who, M records/s, whether it is us)."""
    for section in ("floor", "onceover", "duck", "live_broker", "plain_spark"):
        for row in rows_of(kept, section):
            if row.records and row.seconds:
                yield f"{row.title}, {row.data}", row.records_per_second / 1e6, section == "onceover"


def bar_chart(title: str, bars: Sequence[tuple[str, float, bool]]) -> str:
    """Horizontal bars with their values behind them."""
    height = 50 + len(bars) * (BAR + GAP)
    longest = max(value for _, value, _ in bars)
    parts = [_text(LEFT, 24, title, weight="bold")]
    for place, (name, value, ours) in enumerate(bars):
        y, length = 44 + place * (BAR + GAP), (WIDTH - LEFT - 70) * value / longest
        parts += [
            _text(LEFT - 10, y + 16, name, anchor="end"),
            _bar(y, length, OURS if ours else THEIRS),
            _text(LEFT + length + 8, y + 16, f"{value:.2f}", color=MUTED),
        ]
    return _svg(WIDTH, height, title, parts)


def _bar(y: int, length: float, color: str) -> str:
    return f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="{color}"/>'


def growth_chart(rows: Sequence[Row]) -> str:
    """Time by amount, both by those of the smallest run; the dotted line is linear."""
    lines = {
        title: [row for row in rows if row.title == title]
        for title in dict.fromkeys(row.title for row in rows if "," not in row.title)
    }
    title = "Time as one thing grows (1 = the smallest run)"
    parts = [_text(MARGIN, 24, title, weight="bold"), _line([(1, 1), (16, 16)], MUTED, dotted=True)]
    for factor in (1, 4, 16):
        x, y = _place(factor, factor)
        parts += [
            _text(x, MARGIN + SIDE + 18, f"{factor}x", anchor="middle", color=MUTED),
            _text(MARGIN - 8, y + 4, f"{factor}x", anchor="end", color=MUTED),
        ]
    for color, (name, runs) in zip(LINES, lines.items(), strict=False):
        first = runs[0]
        points = [
            (row.numbers["amount"] / first.numbers["amount"], row.seconds / first.seconds) for row in runs
        ]
        place = list(lines).index(name)
        parts += [
            _line(points, color),
            _text(
                MARGIN + SIDE + 30,
                70 + 22 * place,
                f"{name}, to {runs[-1].numbers['amount']:,.0f}",
                color=color,
            ),
        ]
    return _svg(WIDTH, MARGIN + SIDE + 40, title, parts)


def _place(amount: float, seconds: float) -> tuple[float, float]:
    """Both axes are logarithmic, from 1 to 16."""
    x, y = (math.log2(max(value, 0.5)) / 4 for value in (amount, seconds))
    return MARGIN + SIDE * x, MARGIN - 20 + SIDE * (1 - y) + 20


def _line(points: Sequence[tuple[float, float]], color: str, *, dotted: bool = False) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_place(*point) for point in points))
    dashes = ' stroke-dasharray="3 5"' if dotted else ""
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"{dashes}/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", color: str = INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{color}">'
        f"{escape(text)}</text>"
    )


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    heading = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join((heading, f"<title>{escape(title)}</title>", ground, *parts, "</svg>")) + "\n"
