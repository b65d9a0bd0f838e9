"""`python -m tests.bench.inspect`: `inspect` beside Kafka's own `kafka-dump-log`, on the same files.

Wall clock of whole programs with their output thrown away, best of several; what a program takes for its
start alone, seen on a small segment, is shown apart and taken off before rates and ratios are formed.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_jobs.protocol.record_batch import Codec
from tests.bench.inspect_data import Data, write_segments
from tests.broker.judge import JudgeUnavailableError, kafka_jars

ROOT = Path(__file__).parents[2]
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
SMALL = Data(megabytes=3)
"""Large enough for the compiled way, small enough to be all start-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table: what is read, and how both programs are told to."""

    title: str
    data: Data
    inspect: tuple[str, ...] = ()
    dump_log: tuple[str, ...] = ()
    goal: float


def cases(megabytes: int, segments: int) -> tuple[Case, ...]:
    several = Data(megabytes=megabytes, segments=segments)
    single = Data(records_per_batch=1, megabytes=megabytes, segments=2)
    return (
        Case(title="headers, batches of 16 KiB", data=several, goal=2),
        Case(title="headers as JSON", data=several, inspect=("--json",), goal=2),
        Case(title="headers, 1-record batches", data=single, goal=2),
        *(
            Case(
                title=f"records as JSON, {codec.name.lower()}",
                data=Data(codec=codec, megabytes=megabytes, segments=(segments + 1) // 2),
                inspect=("--records", "--json"),
                dump_log=("--print-data-log",),
                goal=10,
            )
            for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD)
        ),
        Case(
            title="records as text, none",
            data=Data(megabytes=megabytes, segments=(segments + 1) // 2),
            inspect=("--records",),
            dump_log=("--print-data-log",),
            goal=10,
        ),
    )


def inspect_command(paths: Sequence[Path], options: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "spark_jobs", "inspect", *options, *map(str, paths)]


def dump_log_command(jars: Path, paths: Sequence[Path], options: Sequence[str]) -> list[str]:
    files = ",".join(map(str, paths))
    return ["java", "-Xmx2g", "-cp", f"{jars}/*", DUMP_LOG, *options, "--files", files]


def best_seconds(command: list[str], times: int) -> float:
    """The shortest of several runs."""
    return min(_seconds(command) for _ in range(times))


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def find_jars() -> Path | None:
    """Kafka's jars, or None with a sentence on why there is nothing to compare with."""
    try:
        return kafka_jars() if shutil.which("java") else None
    except JudgeUnavailableError as problem:
        print(f"kafka-dump-log is left out: {problem}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds of one program on one case, its start-up apart."""

    start: float
    total: float

    def rate(self, size: int) -> float:
        """MB/s behind the start-up."""
        return size / 1e6 / max(self.total - self.start, 1e-3)


def measure(case: Case, root: Path, jars: Path | None, times: int) -> tuple[int, Measured, Measured | None]:
    """(bytes, ours, Kafka's)."""
    small, paths = write_segments(root, SMALL), write_segments(root, case.data)
    ours = Measured(
        start=best_seconds(inspect_command(small, case.inspect), times + 1),  # the first may have to compile
        total=best_seconds(inspect_command(paths, case.inspect), times),
    )
    theirs = None
    if jars is not None:
        theirs = Measured(
            start=best_seconds(dump_log_command(jars, small[:1], ()), times),
            total=best_seconds(dump_log_command(jars, paths, case.dump_log), times),
        )
    return sum(path.stat().st_size for path in paths), ours, theirs


def row(case: Case, size: int, ours: Measured, theirs: Measured | None) -> tuple[str, ...]:
    common = (
        case.title,
        f"{size / 1e6:,.0f}",
        f"{ours.start:.1f} s",
        f"{ours.total:.1f} s",
        f"{ours.rate(size):,.0f}",
    )
    if theirs is None:
        return (*common, "", "", "", "", f"{case.goal:g}x")
    ratio = ours.rate(size) / theirs.rate(size)
    kafkas = (f"{theirs.start:.1f} s", f"{theirs.total:.1f} s", f"{theirs.rate(size):,.0f}", f"{ratio:.1f}x")
    return (*common, *kafkas, f"{case.goal:g}x")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small files, measured once")
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "bench" / "inspect")
    chosen = parser.parse_args(arguments)
    megabytes, segments, times = (16, 2, 1) if chosen.quick else (128, 5, 3)
    jars = find_jars()
    table = Table(title="onceover inspect beside kafka-dump-log")
    for name in ("case", "MB", "start", "total", "MB/s", "Kafka start", "total", "MB/s", "ratio", "goal"):
        table.add_column(name, justify="left" if name == "case" else "right")
    for case in cases(megabytes, segments):
        table.add_row(*row(case, *measure(case, chosen.data, jars, times)))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    main()
