"""Draws the layers that import-linter checks: `python infra/docs/layers.py` writes docs/img/layers.svg."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "img" / "layers.svg"
PACKAGE = "spark_jobs."
LAYERS = "layers"

WIDTH, MARGIN, BOX_HEIGHT, GAP, LAYER_GAP = 960, 20, 34, 8, 22
MOST_IN_A_ROW = 6
LINE_HEIGHT, HEAD = 20, 64

STYLE = """
  .paper { fill: #ffffff; } .ink { fill: #1f2937; } .soft { fill: #4b5563; }
  .line { stroke: #6b7280; fill: none; } .layer { fill: #f3f4f6; } .box { fill: #e0f2f1; stroke: #00796b; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; } .ink { fill: #e6edf3; } .soft { fill: #a9b4c0; }
    .line { stroke: #8b949e; } .layer { fill: #161b22; } .box { fill: #0f3d38; stroke: #4db6ac; }
  }
"""

Contract = Mapping[str, Any]


def contracts() -> Sequence[Contract]:
    """What import-linter checks, as pyproject.toml has it."""
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: Sequence[Contract] = configured["tool"]["importlinter"]["contracts"]
    return found


def layers_of(contract: Contract) -> list[list[str]]:
    """The modules of each layer, top first; `|` and `:` both separate the modules of a layer."""
    return [
        [name.strip().removeprefix(PACKAGE) for name in layer.replace(":", "|").split("|")]
        for layer in contract["layers"]
    ]


def picture() -> str:
    """The SVG: one band per layer with a box per module, then the other rules as sentences."""
    checked = contracts()
    bands, bottom = _bands([layer for each in checked if each["type"] == LAYERS for layer in layers_of(each)])
    rules = [each["name"] for each in checked if each["type"] != LAYERS]
    texts = [_rule(rule, bottom + LINE_HEIGHT * number) for number, rule in enumerate(rules, start=1)]
    height = bottom + LINE_HEIGHT * len(rules) + MARGIN
    return "\n".join([*_opening(height), *bands, *texts, "</svg>", ""])


def _rule(sentence: str, baseline: int) -> str:
    return f'<text class="soft" x="{MARGIN}" y="{baseline}" font-size="13">{escape(sentence)}</text>'


def _opening(height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title desc" '
        'font-family="ui-sans-serif, system-ui, sans-serif">'
    )
    yield '<title id="title">The layers of the code</title>'
    yield (
        '<desc id="desc">Each band is a layer. A module may import modules of the bands below its own. '
        "Generated from the configuration of import-linter.</desc>"
    )
    yield f"<style>{STYLE}</style>"
    yield (
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path class="soft" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    )
    yield f'<rect class="paper" width="{WIDTH}" height="{height}" rx="10"/>'
    yield (
        f'<text class="ink" x="{MARGIN}" y="32" font-size="15" font-weight="600">'
        "A module imports only from the bands below its own</text>"
    )


def _bands(layers: Sequence[Sequence[str]]) -> tuple[list[str], int]:
    """All bands, and where the last one ends."""
    drawn: list[str] = []
    top = HEAD
    for number, names in enumerate(layers):
        if number:
            arrow = f"M{WIDTH // 2} {top - LAYER_GAP + 2} V{top - 2}"
            drawn.append(f'<path class="line" d="{arrow}" marker-end="url(#tip)"/>')
        rows = _rows(names)
        height = len(rows) * (BOX_HEIGHT + GAP) + GAP
        inner = WIDTH - 2 * MARGIN
        drawn.append(f'<rect class="layer" x="{MARGIN}" y="{top}" width="{inner}" height="{height}" rx="8"/>')
        for line, row in enumerate(rows):
            drawn += _boxes(row, top + GAP + line * (BOX_HEIGHT + GAP))
        top += height + LAYER_GAP
    return drawn, top - LAYER_GAP + 6


def _rows(names: Sequence[str]) -> list[Sequence[str]]:
    """Rows of about equal length, each of at most `MOST_IN_A_ROW` names."""
    lines = -(-len(names) // MOST_IN_A_ROW)
    each = -(-len(names) // lines)
    return [names[start : start + each] for start in range(0, len(names), each)]


def _boxes(names: Sequence[str], top: int) -> Iterator[str]:
    """Boxes of equal width over the whole band."""
    room = WIDTH - 2 * MARGIN - 2 * GAP
    width = (room - GAP * (len(names) - 1)) // len(names)
    for number, name in enumerate(names):
        left = MARGIN + GAP + number * (width + GAP)
        yield f'<rect class="box" x="{left}" y="{top}" width="{width}" height="{BOX_HEIGHT}" rx="6"/>'
        yield (
            f'<text class="ink" x="{left + width // 2}" y="{top + 22}" font-size="13" '
            f'text-anchor="middle">{escape(name)}</text>'
        )


if __name__ == "__main__":
    PICTURE.write_text(picture())
