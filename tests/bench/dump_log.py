"""`inspect` beside Kafka's own `kafka-dump-log`, on the segments that Onceover accepted from the run.

Wall clock of whole programs, the output of both thrown away. Rates after the start are compared: a program is
timed on a little and on much, and only what it takes for the difference counts. The little is next to nothing
for `inspect`, which has nothing to warm up, and seconds of the same work for the JVM, which has. The slower
program reads less of the same data.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.inspect_data import Data, write_segments
from tests.bench.onceover import accepted_log
from tests.bench.workspace import ROOT, Row, Workspace
from tests.broker.judge import JudgeUnavailableError, kafka_jars

DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
SMALL = Data(megabytes=3)
"""Large enough for the compiled way, small enough to be all start-up."""
KAFKA_SECONDS, KAFKA_BYTES = "Kafka s", "Kafka bytes"

Command = tuple[str, ...]
Paths = tuple[Path, ...]
RECORDS: Command = ("--records",)
JSON: Command = ("--json",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a program reads to get going, and what it reads in all; a path may come several times."""

    start: Paths
    all: Paths

    @property
    def bytes(self) -> int:
        return _size(self.all) - _size(self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Data that both programs read: `inspect` in several ways, Kafka's in one that all are compared with."""

    data: str
    ours: Reading
    ways: Mapping[str, Command]
    """Options by title."""
    kafka: Reading
    dump_log: Command = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How one program is called on a reading."""

    start: Command
    all: Command

    def seconds(self, least: Mapping[Command, float]) -> float:
        """Of what it reads after the start."""
        return max(least[self.all] - least[self.start], 1e-3)


def measure(space: Workspace) -> Sequence[Row]:
    """Headers and records of all segments, headers of one-record batches."""
    jars = find_jars(space)
    return [row for case in cases(space) for row in measure_case(space, case, jars)]


def measure_case(space: Workspace, case: Case, jars: Path | None) -> list[Row]:
    """A row for each way; all programs take turns, each has its best times."""
    ours = {title: inspect_program(case.ours, options) for title, options in case.ways.items()}
    kafka = dump_log_program(jars, case.kafka, case.dump_log) if jars else None
    programs = [*ours.values(), kafka] if kafka else [*ours.values()]
    least = _least_seconds([call for program in programs for call in (program.start, program.all)], space)
    theirs = {KAFKA_BYTES: float(case.kafka.bytes), KAFKA_SECONDS: kafka.seconds(least)} if kafka else {}
    return [
        Row(title=title, data=case.data, seconds=call.seconds(least), bytes=case.ours.bytes, numbers=theirs)
        for title, call in ours.items()
    ]


def cases(space: Workspace) -> Iterator[Case]:
    """As much data for each program as takes it some seconds."""
    small = tuple(write_segments(space.home / "inspect", SMALL))
    logs = {codec.name.lower(): accepted_log(space, codec) for codec in space.volume.codecs}
    plain = space.volume.codecs[0].name.lower()
    every, single = _segments(logs[plain]), _one_record_batches(space)
    yield Case(
        data=plain,
        ours=Reading(start=small, all=6 * every),
        ways={"headers": (), "headers as JSON": JSON},
        kafka=Reading(start=every, all=4 * every),
    )
    yield Case(
        data="1-record batches",
        ours=Reading(start=small, all=6 * single),
        ways={"headers": ()},
        kafka=Reading(start=single, all=2 * single),
    )
    for name, log in logs.items():
        as_text = {"records as text": RECORDS} if name == plain else {}
        times = 2 if name == plain else 1  # compressed bytes take longer
        yield Case(
            data=name,
            ours=Reading(start=small, all=times * _segments(log)),
            ways={"records as JSON": RECORDS + JSON, **as_text},
            kafka=Reading(start=_segments(log, "orders-0"), all=_segments(log, "orders-[01]")),
            dump_log=("--print-data-log",),
        )


def _one_record_batches(space: Workspace) -> Paths:
    megabytes = max(int(128 * space.volume.growth), 3)
    return tuple(write_segments(space.home / "inspect", Data(records_per_batch=1, megabytes=megabytes)))


def _segments(log: Path, partitions: str = "*") -> Paths:
    return tuple(sorted(log.glob(f"{partitions}/*.log")))


def _size(paths: Paths) -> int:
    return sum(path.stat().st_size for path in paths)


def find_jars(space: Workspace) -> Path | None:
    """Kafka's jars, or None with a sentence on why there is nothing to compare with."""
    try:
        return kafka_jars() if shutil.which("java") else None
    except JudgeUnavailableError as problem:
        space.on_progress(f"kafka-dump-log is left out: {problem}")
        return None


def inspect_program(reading: Reading, options: Sequence[str]) -> Program:
    call = (sys.executable, "-m", "spark_jobs", "inspect", *options)
    return Program(start=(*call, *map(str, reading.start)), all=(*call, *map(str, reading.all)))


def dump_log_program(jars: Path, reading: Reading, options: Sequence[str]) -> Program:
    call = ("java", "-Xmx2g", "-cp", f"{jars}/*", DUMP_LOG, *options, "--files")
    return Program(
        start=(*call, ",".join(map(str, reading.start))), all=(*call, ",".join(map(str, reading.all)))
    )


def _least_seconds(commands: Sequence[Command], space: Workspace) -> dict[Command, float]:
    """Of each command the best of some times; they take turns."""
    rounds = [_one_round(commands, space) for _ in range(space.volume.times)]
    return {command: min(found[command] for found in rounds) for command in commands}


def _one_round(commands: Sequence[Command], space: Workspace) -> dict[Command, float]:
    found = {command: _seconds(command) for command in commands}
    space.on_progress("; ".join(f"{seconds:.2f} s" for seconds in found.values()))
    return found


def _seconds(command: Command) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
