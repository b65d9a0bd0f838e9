"""`inspect` beside Kafka's own `kafka-dump-log`, on the segments that Onceover accepted from the night.

Wall clock of whole programs with their output thrown away; what a program takes for its start alone, seen
on a small segment, is kept apart and taken off before rates are compared.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.bench.inspect_data import Data, write_segments
from tests.bench.onceover import accepted_log
from tests.bench.room import ROOT, Room, Row
from tests.broker.judge import JudgeUnavailableError, kafka_jars

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
SMALL = Data(megabytes=3)
"""Large enough for the compiled way, small enough to be all start-up."""
KAFKA_TOTAL = "Kafka total s"
JSON_RECORDS = ("--records", "--json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is read, and how `inspect` is told to."""

    title: str
    data: str
    paths: Sequence[Path]
    inspect: tuple[str, ...] = ()

    @property
    def dump_log(self) -> tuple[str, ...]:
        return ("--print-data-log",) if "--records" in self.inspect else ()


def measure(room: Room) -> Sequence[Row]:
    """Headers over all segments, records of one segment per codec, headers of one-record batches."""
    jars, small = find_jars(room), write_segments(room.home / "inspect", SMALL)
    return [_best(room, case, small, jars) for case in cases(room)]


def _best(room: Room, case: Case, small: Sequence[Path], jars: Path | None) -> Row:
    """Both programs take turns; each has its best time."""
    rows: list[Row] = []

    def take_turns() -> Row:
        rows.append(_row(case, small, jars, room.volume.times))
        return rows[-1]

    best = room.best(take_turns)
    kafka = [row.numbers[KAFKA_TOTAL] for row in rows if KAFKA_TOTAL in row.numbers]
    return replace(best, numbers=best.numbers | {KAFKA_TOTAL: min(kafka)}) if kafka else best


def cases(room: Room) -> list[Case]:
    volume = room.volume
    logs = {codec: accepted_log(room, codec) for codec in volume.codecs}
    every = sorted(logs[volume.codecs[0]].glob("*/*.log"))
    megabytes = max(int(256 * volume.growth), 3)
    single = write_segments(room.home / "inspect", Data(records_per_batch=1, megabytes=megabytes))
    name = volume.codecs[0].name.lower()
    return [
        Case(title="headers", data=name, paths=every),
        Case(title="headers as JSON", data=name, paths=every, inspect=("--json",)),
        Case(title="headers", data="1-record batches", paths=single),
        *(
            Case(
                title="records as JSON",
                data=codec.name.lower(),
                paths=sorted(log.glob("orders-0/*.log")),
                inspect=JSON_RECORDS,
            )
            for codec, log in logs.items()
        ),
        Case(title="records as text", data=name, paths=every[:1], inspect=("--records",)),
    ]


def find_jars(room: Room) -> Path | None:
    """Kafka's jars, or None with a sentence on why there is nothing to compare with."""
    try:
        return kafka_jars() if shutil.which("java") else None
    except JudgeUnavailableError as problem:
        room.tell(f"kafka-dump-log is left out: {problem}")
        return None


def _row(case: Case, small: Sequence[Path], jars: Path | None, starts: int = 1) -> Row:
    start = _start_seconds(tuple(inspect_command(small, case.inspect)), starts)
    total = _seconds(inspect_command(case.paths, case.inspect))
    numbers = {"start s": start, "total s": total}
    if jars is not None:
        numbers["Kafka start s"] = _start_seconds(tuple(dump_log_command(jars, small, ())), starts)
        numbers[KAFKA_TOTAL] = _seconds(dump_log_command(jars, case.paths, case.dump_log))
    return Row(
        title=case.title,
        data=case.data,
        seconds=max(total - start, 1e-3),
        bytes=sum(path.stat().st_size for path in case.paths),
        numbers=numbers,
    )


def inspect_command(paths: Sequence[Path], options: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "spark_jobs", "inspect", *options, *map(str, paths)]


def dump_log_command(jars: Path, paths: Sequence[Path], options: Sequence[str]) -> list[str]:
    files = ",".join(map(str, paths))
    return ["java", "-Xmx2g", "-cp", f"{jars}/*", DUMP_LOG, *options, "--files", files]


@cache
def _start_seconds(command: tuple[str, ...], times: int) -> float:
    """Of a program that has next to nothing to do, the best of some times; all cases share it."""
    return min(_seconds(command) for _ in range(times))


def _seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
