"""`python -m tests.bench`: everything that is compared, on the same files in the same run, in one table.

Data and results are kept below .cache/bench; `--plot` makes the page's table and pictures of what was kept.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spark_jobs.execution.spark import Spark
from spark_jobs.kafka.formats.record_batch import Codec
from tests.bench.workspace import FULL, HOME, QUICK, Row, Volume, Workspace, save, saved
from tests.s3_server import new_keys

SECTIONS = (
    "floor",
    "onceover",
    "whole_runs",
    "standalone",
    "large",
    "verdicts",
    "growth",
    "knobs",
    "commits",
    "kernels",
    "dump_log",
    "live_broker",
    "cluster_fetch",
    "readers",
    "tap",
    "duck",
    "plain_spark",
    "ids",
)
"""In the order in which they run, rivals last, for their memory stays; each is a module here."""


def run_section(space: Workspace, section: str) -> Sequence[Row]:
    """Measure one section and keep its rows."""
    module = import_module(f"tests.bench.{section}")
    rows: Sequence[Row] = module.measure(space)
    save(space.home, section, rows)
    return rows


def run_sections(space: Workspace, sections: Sequence[str]) -> None:
    """One after the other; what cannot be had on this machine says so in its rows."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=space.console) as progress:
        task = progress.add_task("bench", total=len(sections))
        for section in sections:
            progress.update(task, description=section)
            began = time.monotonic()
            run_section(space, section)
            space.on_progress(f"{section} took {time.monotonic() - began:.0f} s")
            progress.advance(task)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small volumes, measured once")
    parser.add_argument("--only", metavar="A,B", help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--records", type=int, help="of the run that everything is compared on")
    parser.add_argument("--codecs", metavar="A,B", help="some of: none, gzip, snappy, lz4, zstd")
    parser.add_argument("--times", type=int, help="how often; the best counts")
    parser.add_argument("--home", type=Path, default=HOME, help="where data and results are kept")
    parser.add_argument("--plot", action="store_true", help="only the page and pictures of kept results")
    chosen = parser.parse_args(arguments)
    chosen.sections = tuple(chosen.only.split(",")) if chosen.only else SECTIONS
    if unknown := sorted(set(chosen.sections) - set(SECTIONS)):
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return chosen


def volume_of(chosen: argparse.Namespace) -> Volume:
    """What the arguments ask for."""
    asked = {
        "records": chosen.records,
        "times": chosen.times,
        "codecs": tuple(Codec[name.upper()] for name in chosen.codecs.split(",")) if chosen.codecs else None,
    }
    return replace(QUICK if chosen.quick else FULL, **{name: value for name, value in asked.items() if value})


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, keeps and prints."""
    from tests.bench import page, plots

    chosen = parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140)
    if chosen.plot:
        page.write_page(saved(chosen.home))
        plots.write_plots(saved(chosen.home))
        return
    # A session of as many slots as there are cores, whatever a configuration would say.
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = keys = new_keys()
    spark = Spark(f"local[{os.cpu_count()}]", {"spark.driver.memory": "2g"})
    try:
        space = Workspace(home=chosen.home, volume=volume_of(chosen), spark=spark, s3_keys=keys)
        run_sections(space, chosen.sections)
    finally:
        spark.stop()
    for table in page.tables(saved(chosen.home)):
        console.print(table)


if __name__ == "__main__":
    main()
