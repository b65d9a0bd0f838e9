"""Onceover itself: `stage` to `publish` in a session that is up, start-up apart."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from spark_jobs.kafka.formats.record_batch import Codec
from tests.bench.mix_data import objects_of
from tests.bench.runs import BROKER_LOG, CAPTURE, RunMeasured, run_measured
from tests.bench.workspace import Row, Workspace

WARM_RECORDS = 24_000
COMMITTED = "committed"


def measure(space: Workspace) -> Sequence[Row]:
    """The run as a capture in every codec, and as a copy of the broker's log that it becomes."""
    return [
        start_up(space),
        *(space.best(partial(capture_run, space, codec)) for codec in space.volume.codecs),
        space.best(partial(broker_log_run, space, space.volume.compared)),
    ]


def start_up(space: Workspace) -> Row:
    """The first run of a process: Spark, libraries, compiled code, and a run that is next to nothing."""
    capture = space.capture(Codec.LZ4, WARM_RECORDS)
    began = time.perf_counter()
    run_measured(capture, space.spark, scratch=space.home / "lakes")
    first = time.perf_counter() - began
    again = run_measured(capture, space.spark, scratch=space.home / "lakes")
    return Row(title="start-up", seconds=first - again.seconds, numbers={"empty run s": again.seconds})


def capture_run(space: Workspace, codec: Codec) -> Row:
    """From what producers sent; the accepted log is written too, as always for captures."""
    capture, log = space.capture(codec), accepted_log_place(space, codec)
    keep = None if log.exists() else log
    found = run_measured(capture, space.spark, config=CAPTURE, scratch=space.home / "lakes", keep_log=keep)
    row = run_row("onceover", codec, found, objects_of(capture))
    log.with_name(COMMITTED).write_text(str(row.records))
    return row


def broker_log_run(space: Workspace, codec: Codec) -> Row:
    """From a copy of a broker's log directory: no duplicates any more, and no log to write."""
    log = accepted_log(space, codec)
    found = run_measured(log, space.spark, config=BROKER_LOG, scratch=space.home / "lakes")
    return run_row("onceover, broker-log", codec, found, sorted(log.glob("*/*.log")))


def accepted_log(space: Workspace, codec: Codec) -> Path:
    """A broker's log directory of the run, made by a run of it if it is not there."""
    log = accepted_log_place(space, codec)
    if not log.exists():
        capture_run(space, codec)
    return log


def committed_records(space: Workspace, codec: Codec) -> int:
    """How many records of the run a consumer gets."""
    return int(accepted_log(space, codec).with_name(COMMITTED).read_text())


def accepted_log_place(space: Workspace, codec: Codec) -> Path:
    return space.capture(codec).parent / "log"


def run_row(title: str, codec: Codec, found: RunMeasured, files: Sequence[Path]) -> Row:
    """A run as a row of results."""
    return Row(
        title=title,
        data=codec.name.lower(),
        seconds=found.seconds,
        cpu_seconds=found.cpu_seconds,
        records=found.counts["materialise"]["records"],
        bytes=sum(path.stat().st_size for path in files),
        numbers=found.numbers,
    )
