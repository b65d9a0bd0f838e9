"""The results as tables: on a terminal, and in the pages of `docs/`."""

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from tests.bench.workspace import (
    CONSUMER_TITLE,
    FETCH_TITLE,
    LOCAL_TITLE,
    OURS,
    ROOT,
    STANDALONE_TITLE,
    Results,
    Row,
)

PAGES = (ROOT / "docs" / "performance.md", ROOT / "docs" / "scale.md")
Kept = Mapping[str, Results]
BROKER_LOG = "onceover, broker-log"
ON_FILES = "whole run, files"
SPARK_WORKS = (("reading", 3), ("first query", 0), ("count by key", 0), ("Parquet", 0))
"""What Spark does with records of a log, and how many times as fast `kafka-log` should be; 0 for no goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison; `ratio` is such that `goal` says how small or how large it should be."""

    measured: str
    found: str
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        met = {True: "met", False: "missed", None: ""}[self.met]
        return self.measured, self.found, "" if self.ratio is None else f"{self.ratio:.2f}", self.goal, met


def rows_of(kept: Kept, section: str, title: str = "") -> list[Row]:
    """The kept rows of a section, those with the title if one is given."""
    rows = kept[section].rows if section in kept else ()
    return [row for row in rows if not title or row.title == title]


def headline(kept: Kept) -> Iterator[Line]:
    """Every row of the comparison that was measured, but for whole runs."""
    runs = {row.data: row for row in rows_of(kept, "onceover", "onceover")}
    logs = {row.data: row for row in rows_of(kept, "onceover", BROKER_LOG)}
    for row in rows_of(kept, "onceover", "start-up"):
        yield Line(measured="start-up of the first run, apart", found=f"{row.seconds:.1f} s")
    yield from _rivals(kept, runs, logs)
    yield from _fetched(kept)
    yield from _standalone(kept)
    yield from _readers(kept)
    yield from _ids(kept)
    yield from _dump_log(kept)
    yield from _verdicts(kept)
    yield from _bounds(kept)


def _rivals(kept: Kept, runs: Mapping[str, Row], logs: Mapping[str, Row]) -> Iterator[Line]:
    """Others by the time of Onceover on the same files: a live broker's are its log."""
    for section, usual, ours in (("plain_spark", 5, runs), ("duck", 2, runs), ("live_broker", 1, logs)):
        for row in rows_of(kept, section):
            goal = 5 if row.title == "Spark Kafka source" else usual
            if row.note:
                yield Line(measured=row.title, found=f"left out: {row.note}")
            elif row.data in ours:
                seconds = row.numbers.get(OURS, ours[row.data].seconds)
                ratio = ours[row.data].records / seconds / row.records_per_second
                yield _at_least(f"{row.title}, {row.data}", _rate(row), ratio, goal)


def _fetched(kept: Kept) -> Iterator[Line]:
    """What a source of kind cluster fetches, by what Kafka's own reader consumes."""
    rows = [row for row in rows_of(kept, "cluster_fetch") if not row.note]
    consumed = [row.records_per_second for row in rows if row.title == CONSUMER_TITLE]
    for row in rows if consumed else ():
        if row.title == FETCH_TITLE:
            ratio = row.records_per_second / consumed[0]
            yield _at_least(f"{row.title}, {row.data}, by ConsumerPerformance", _rate(row), ratio, 0.8)


def _standalone(kept: Kept) -> Iterator[Line]:
    rows = {row.title: row for row in rows_of(kept, "standalone")}
    if LOCAL_TITLE in rows and STANDALONE_TITLE in rows:
        local, cluster = rows[LOCAL_TITLE], rows[STANDALONE_TITLE]
        ratio, measured = local.seconds / cluster.seconds, f"{STANDALONE_TITLE}, by local[2], {local.data}"
        yield _at_least(measured, f"{_rate(cluster)}; {_rate(local)}", ratio, 0.9)


def whole_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """Whole runs, `stage` included, by the floor on the same records."""
    floors = {row.data: row for section in ("floor", "large") for row in rows_of(kept, section, "floor")}
    for data, row in floors.items():
        yield (
            f"floor, {data}",
            f"{row.seconds:.1f}",
            _million(row),
            "",
            "1.00",
            "",
            "",
            f"{row.cpu_seconds:.0f}",
            "",
            "",
        )
    for section in ("onceover", "large", "whole_runs"):
        for row in rows_of(kept, section):
            if row.title not in ("floor", "start-up"):
                yield _whole(row, floors.get(row.data), is_copied=section == "whole_runs")


def _whole(row: Row, floor: Row | None, *, is_copied: bool) -> tuple[str, ...]:
    """The goal is for runs over immutable objects; a run that copies them does more than the floor."""
    name = f"{row.title}, {row.data}" if row.data else row.title
    if row.note:
        return name, f"left out: {row.note}", *[""] * (len(WHOLE_HEADINGS) - 2)
    ratio = row.seconds / floor.seconds if floor and row.records == floor.records else None
    goal = 1.2 if "M records" in row.data else 1.5
    met = "" if ratio is None or is_copied else "met" if ratio <= goal else "missed"
    return (
        name,
        f"{row.seconds:.1f}",
        _million(row),
        f"{row.numbers.get('stage s', 0):.1f}",
        "" if ratio is None else f"{ratio:.2f}",
        f"at most {goal:g}" if met else "",
        met,
        f"{row.cpu_seconds:.0f}",
        f"{row.numbers.get('read bytes', 0) / row.bytes:.2f}",
        f"{row.numbers.get('moved bytes', 0) / row.bytes:.3f}",
    )


def _million(row: Row) -> str:
    return f"{row.records_per_second / 1e6:.2f}"


def _readers(kept: Kept) -> Iterator[Line]:
    """Readers of a log by what is used instead, all from one run."""
    found = {row.title: row for row in rows_of(kept, "readers") if not row.note}
    for title, other, goal in (
        ("read_log", "Kafka ConsumerPerformance", 2),
        *(
            (f"{source}, {work}", f"Spark Kafka source, {work}", goal)
            for source in ("Spark kafka-log, tuned session", "Spark kafka-log")
            for work, goal in SPARK_WORKS
        ),
    ):
        if title in found and other in found:
            ours, theirs = found[title], found[other]
            ratio = ours.records_per_second / theirs.records_per_second
            line = _at_least(
                f"{title} by {other}, {ours.data}", f"{_rate(ours)}; {_rate(theirs)}", ratio, goal
            )
            yield line if goal else replace(line, goal="", met=None)
    if "read_log" in found and "decoding alone" in found:
        ours, alone = found["read_log"], found["decoding alone"]
        ratio = ours.cpu_seconds / alone.cpu_seconds
        times = f"{ours.cpu_seconds:.1f} s of all cores; {alone.cpu_seconds:.1f} s"
        yield _at_most(f"read_log by decoding alone, {ours.data}", times, ratio, 1.3)
    if "query" in found and "DuckDB on Parquet" in found:
        ours, theirs = found["query"], found["DuckDB on Parquet"]
        times = f"{ours.seconds:.1f} s; {theirs.seconds:.1f} s"
        yield Line(
            measured=f"query, count by key, by DuckDB on Parquet, {ours.data}",
            found=times,
            ratio=ours.seconds / theirs.seconds,
        )


def _ids(kept: Kept) -> Iterator[Line]:
    """Spark's ways by the step, on the same history; the goal is for 100 M and ways that write records."""
    ours = {row.data: row for row in rows_of(kept, "ids", "Onceover, step deduplicate, UUID")}
    for row in rows_of(kept, "ids"):
        if row.note:
            yield Line(measured=row.title, found=f"left out: {row.note}")
        elif row.title.startswith("Spark"):
            step = ours[row.data]
            found = (
                f"{row.seconds:.0f} s; {row.cpu_seconds:.0f} s of all cores, step {step.cpu_seconds:.0f} s"
            )
            line = f"{row.title} by step deduplicate, history of {row.data}"
            ratio = row.seconds / step.seconds
            if row.data == "100 M" and not row.title.endswith("ids only"):
                yield _at_least(line, found, ratio, 5)
            else:
                yield Line(measured=line, found=found, ratio=ratio)


def _dump_log(kept: Kept) -> Iterator[Line]:
    """Rates, for the slower program reads less."""
    for row in rows_of(kept, "dump_log"):
        rate = row.bytes / 1e6 / row.seconds
        goal = 10 if row.title.startswith("records") else 2
        if "Kafka bytes" not in row.numbers:
            yield Line(measured=f"inspect, {row.title}, {row.data}", found=f"{rate:,.0f} MB/s")
            continue
        theirs = row.numbers["Kafka bytes"] / 1e6 / row.numbers["Kafka s"]
        found = f"{rate:,.0f} MB/s; kafka-dump-log {theirs:,.0f} MB/s"
        yield _at_least(f"inspect, {row.title}, {row.data}", found, rate / theirs, goal)


def _verdicts(kept: Kept) -> Iterator[Line]:
    for row in rows_of(kept, "verdicts"):
        batches, size = row.numbers["batches"] / row.seconds, row.bytes / row.seconds
        found = f"{batches / 1e6:.2f} M batches/s, {size / 1e9:.2f} GB/s"
        ratio = row.seconds / row.numbers["crc s"]
        is_large = row.data.startswith("broker-log")
        line = _at_most(f"verdicts alone by CRC alone, {row.data}", found, ratio, 1.3)
        yield line if is_large else Line(measured=line.measured, found=found, ratio=ratio)


def _bounds(kept: Kept) -> Iterator[Line]:
    runs = [row for row in rows_of(kept, "onceover") if row.bytes]
    copied = [row for row in rows_of(kept, "whole_runs") if row.title.startswith(ON_FILES)]
    for row in (*runs, *copied):  # on S3 the server's own reads count, too
        ratio = row.numbers["read bytes"] / row.bytes
        yield _at_most(f"bytes read by bytes of input, {row.title}, {row.data}", "", ratio, 2.1)
    if runs:
        worker = max(row.numbers["worker MB"] for row in runs)
        moved = max(row.numbers["moved bytes"] / row.bytes for row in runs)
        yield Line(
            measured="most memory of a worker", found=f"{worker:,.0f} MB", goal="2 GB", met=worker <= 2048
        )
        yield _at_most("bytes moved between workers by bytes of input", "", moved, 0.1)


def _at_most(measured: str, found: str, ratio: float, goal: float) -> Line:
    return Line(measured=measured, found=found, ratio=ratio, goal=f"at most {goal:g}", met=ratio <= goal)


def _at_least(measured: str, found: str, ratio: float, goal: float) -> Line:
    return Line(measured=measured, found=found, ratio=ratio, goal=f"at least {goal:g}", met=ratio >= goal)


def _rate(row: Row) -> str:
    return f"{row.seconds:.1f} s, {row.records_per_second / 1e6:.2f} M records/s"


HEADINGS = ("measured", "found", "ratio", "goal", "")
WHOLE_HEADINGS = (
    "run",
    "s",
    "M records/s",
    "of it stage, s",
    "by the floor",
    "goal",
    "",
    "CPU s",
    "bytes read by input",
    "bytes moved by input",
)
MEMORY = ("worker MB", "driver MB", "JVM MB")
GROWTH_HEADINGS = ("what grows", "how many", "s", "by linear", "CPU by linear", *MEMORY)
SCALE_HEADINGS = ("run", "size", "rate per core", "core hours", "cores for 1 h", "cores for 4 h")
KNOB_HEADINGS = ("knob", "value", "s", "M records/s", "worker MB")
TRANSACTION_STEPS = ("stage", "index", "rebuild", "admit", "resolve")
TRANSACTION_HEADINGS = (
    "transactions",
    "how many",
    *(f"{step} s" for step in TRANSACTION_STEPS),
    "CPU s",
    *MEMORY,
)


def growth_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """Time per unit by that of the smallest run: 1 is linear, less is better."""
    first: dict[str, Row] = {}
    for row in (*rows_of(kept, "growth"), *rows_of(kept, "commits")):
        start = first.setdefault(row.title.partition(",")[0], row)
        times = row.numbers["amount"] / start.numbers["amount"]
        yield (
            row.title,
            f"{row.numbers['amount']:,.0f}",
            f"{row.seconds:.1f}",
            f"{row.seconds / start.seconds / times:.2f}",
            f"{row.cpu_seconds / max(start.cpu_seconds, 0.01) / times:.2f}",
            *_memory(row),
        )


def _memory(row: Row) -> Iterator[str]:
    return (f"{row.numbers.get(name, 0):,.0f}" for name in MEMORY)


def transaction_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """The steps of runs with many transactions."""
    for row in rows_of(kept, "growth"):
        if row.title.startswith("transactions"):
            name = row.title.removeprefix("transactions, ") if "," in row.title else "of 1,000 producers"
            steps = (f"{row.numbers.get(f'{step} s', 0):.1f}" for step in TRANSACTION_STEPS)
            yield name, f"{row.numbers['amount']:,.0f}", *steps, f"{row.cpu_seconds:.0f}", *_memory(row)


def detail_cells(kept: Kept, section: str) -> Iterator[tuple[str, ...]]:
    """Every row of a section as it was kept."""
    names = detail_numbers(kept, section)
    for row in rows_of(kept, section):
        if row.note:
            yield row.title, row.data, f"left out: {row.note}", *[""] * (2 + len(names))
            continue
        numbers = (
            f"{row.numbers[name]:,.2f}".removesuffix(".00") if name in row.numbers else "" for name in names
        )
        cpu = f"{row.cpu_seconds:.1f}" if row.cpu_seconds else ""
        rate = f"{row.records_per_second:,.0f}" if row.records else ""
        yield row.title, row.data, f"{row.seconds:.1f}", cpu, rate, *numbers


def detail_numbers(kept: Kept, section: str) -> list[str]:
    """What else was counted in a section."""
    return list(dict.fromkeys(name for row in rows_of(kept, section) for name in row.numbers))


def knob_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """Each knob alone."""
    codecs = rows_of(kept, "onceover", "onceover")
    for row in (*(replace(row, title="codec") for row in codecs), *rows_of(kept, "knobs")):
        memory = f"{row.numbers['worker MB']:,.0f}" if "worker MB" in row.numbers else ""
        yield row.title, row.data, f"{row.seconds:.1f}", f"{row.records_per_second / 1e6:.2f}", memory


def step_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """Where a run's time goes."""
    for row in (*rows_of(kept, "onceover"), *rows_of(kept, "large")):
        steps = [row.numbers.get(f"{step} s", 0.0) for step in STEPS]
        if any(steps):
            yield f"{row.title}, {row.data}", *(f"{seconds:.1f}" for seconds in steps), f"{row.seconds:.1f}"


def scale_cells(kept: Kept) -> Iterator[tuple[str, ...]]:
    """What runs of 1 and 100 TB need at the rates measured here, per core."""
    cores = os.cpu_count() or 1
    for row in rows_of(kept, "onceover"):
        if not row.bytes:
            continue
        rate = row.bytes / row.seconds / cores
        for terabytes in (1, 100):
            hours = terabytes * 1e12 / rate / 3600
            yield (
                f"{row.title}, {row.data}",
                f"{terabytes} TB",
                f"{rate / 1e6:,.0f} MB/s",
                f"{hours:,.1f}",
                f"{math.ceil(hours):,}",
                f"{math.ceil(hours / 4):,}",
            )


STEPS = ("stage", "index", "rebuild", "admit", "resolve", "materialise", "audit", "publish")


def tables(kept: Kept) -> Iterator[Table]:
    """What a terminal shows."""
    yield _table("Whole runs", WHOLE_HEADINGS, list(whole_cells(kept)))
    yield _table("Compared", HEADINGS, [line.cells for line in headline(kept)])
    yield _table("Steps, in seconds", ("run", *STEPS, "all"), list(step_cells(kept)))
    yield _table("Growth", GROWTH_HEADINGS, list(growth_cells(kept)))
    yield _table("Many transactions", TRANSACTION_HEADINGS, list(transaction_cells(kept)))
    yield _table("Larger runs", SCALE_HEADINGS, list(scale_cells(kept)))
    yield _table("Knobs", KNOB_HEADINGS, list(knob_cells(kept)))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*headings, title=title)
    for row in rows:
        table.add_row(*row)
    return table


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


DETAIL_HEADINGS = ("measured", "data", "s", "CPU s", "records/s")
DETAILED = ("readers", "tap", "ids")
"""Sections whose rows a page shows as they are."""
COMPARED = (
    *("onceover", "plain_spark", "duck", "live_broker", "cluster_fetch", "standalone", "readers", "ids"),
    *("dump_log", "verdicts"),
)
"""Sections of the comparison."""
DAY = re.compile(r"\d{4}-\d\d-\d\d")
DATED = re.compile(r" \(\d{4}-\d\d-\d\d\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A table of a page, the sections that it shows, and how many cells name a row."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    sections: Collection[str]
    names: int = 2


def blocks(kept: Kept) -> dict[str, Block]:
    """What pages show, by the name of the place; without rows if nothing of it was measured."""
    return {
        "whole": Block(
            headings=WHOLE_HEADINGS,
            rows=list(whole_cells(kept)),
            sections=("floor", "onceover", "large", "whole_runs"),
            names=1,
        ),
        "compared": Block(
            headings=HEADINGS,
            rows=[line.cells for line in headline(kept)],
            sections=COMPARED,
            names=1,
        ),
        "steps": Block(
            headings=("run", *STEPS, "all"),
            rows=list(step_cells(kept)),
            sections=("onceover", "large"),
            names=1,
        ),
        "growth": Block(
            headings=GROWTH_HEADINGS, rows=list(growth_cells(kept)), sections=("growth", "commits")
        ),
        "transactions": Block(
            headings=TRANSACTION_HEADINGS, rows=list(transaction_cells(kept)), sections=("growth",)
        ),
        "knobs": Block(headings=KNOB_HEADINGS, rows=list(knob_cells(kept)), sections=("onceover", "knobs")),
        "runs": Block(headings=SCALE_HEADINGS, rows=list(scale_cells(kept)), sections=("onceover",)),
        **{
            name: Block(
                headings=(*DETAIL_HEADINGS, *detail_numbers(kept, name)),
                rows=list(detail_cells(kept, name)),
                sections=(name,),
            )
            for name in DETAILED
        },
    }


def merged(block: Block, before: str, kept: Kept, day: str) -> str:
    """The table; where some of its sections were not measured, with the other rows of the page, dated."""
    if all(section in kept for section in block.sections):
        return markdown(block.headings, block.rows)
    found = {_name(row, block): row for row in block.rows}
    rows = [
        found.pop(_name(old, block), ()) or _dated(old, day) for old in _rows_before(before, block.headings)
    ]
    return markdown(block.headings, [*rows, *found.values()])


def _name(row: Sequence[str], block: Block) -> tuple[str, ...]:
    return (DATED.sub("", row[0]), *row[1 : block.names])


def _rows_before(table: str, headings: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Rows of a page's table in the order of `headings`; a column that it lacks is empty."""
    lines = [line.strip().strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    columns, *rows = [[cell.strip() for cell in line] for line in lines] or [[]]
    for row in rows[1:]:
        cells = dict(zip(columns, row, strict=True))
        yield tuple(cells.get(heading, "") for heading in headings)


def _dated(row: tuple[str, ...], day: str) -> tuple[str, ...]:
    return row if DATED.search(row[0]) or not day else (f"{row[0]} ({day})", *row[1:])


def _when(kept: Kept) -> str:
    days = sorted({found.measured_at[:10] for found in kept.values()})
    machines = sorted({found.machine for found in kept.values()})
    return f"Measured on {' and '.join(days)} on {' and '.join(machines)}."


def fill(text: str, kept: Kept) -> str:
    """A page with what was measured; what was not stays as it is, with the date when it was."""
    when = _when(kept)
    day = max(DAY.findall(_between(text, "when")), default="")
    day = "" if day in when else day
    for name, block in blocks(kept).items():
        if block.rows:
            text = _replaced(text, name, merged(block, _between(text, name), kept, day))
    return _replaced(text, "when", when) if kept else text


def _between(text: str, name: str) -> str:
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


def _replaced(text: str, name: str, part: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, found, rest = text.partition(begin)
    return f"{before}{begin}{part}\n{end}{rest.partition(end)[2]}" if found else text


def write_page(kept: Kept, pages: Sequence[Path] = PAGES) -> None:
    """Puts the tables into the pages."""
    for page in pages:
        page.write_text(fill(page.read_text(), kept))
