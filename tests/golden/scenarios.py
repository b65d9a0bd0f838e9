"""Fixed inputs for every path through the pipeline, run in this process.

A scenario yields its lake at each moment that is compared, with a name for the moment; the last one has none.
Runs end after `publish`: `report` has no outputs in a run's folder, so the digests call it themselves.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from spark_jobs.config.load import load_settings, parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.log.segment import scan
from spark_jobs.operations.backfill import run_backfill
from spark_jobs.operations.expire import expire
from spark_jobs.operations.replay import Selection, decide
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.in_process import InProcess
from tests.operations.replay.runs import Shop
from tests.operations.replay.runs import run as run_shop
from tests.pipeline.batches import batch, marker
from tests.pipeline.recorded_captures import DATA, CapturedBatch, appended, produced, with_markers

QUIET = RunProgress(Console(quiet=True))
COPIED_AT = 1_790_000_000
"""When every input was written, in seconds since 1970: a checkout gives files other times."""
RECORDED = date(2026, 11, 10)
CAPTURES = {"oracle_A": "TV2", "oracle_D": "TV1", "oracle_E": "TV2"}
APPENDED = ("scenarios", "workload_clean")
"""Recordings without requests, or with requests whose errors say nothing about batches."""
MORE_CAPTURES = {"restarts_idem": "TV2", "restarts_tv1": "TV1", "restarts_tv2": "TV2"}
LOGS = (
    "oracle_A", "oracle_D", "oracle_E", "restarts_idem", "restarts_tv1", "restarts_tv2", "scenarios",
    "workload_clean",
)  # fmt: skip
CAPTURE = """
lake: lake
sources:
  - {{name: gateway, kind: capture, root: capture, dates: dt=%Y-%m-%d, {options}}}
  {others}
kafka: {{transaction_version: {version}}}
audit: {{severities: {{most_transactions_are_decided: warning}}}}
"""
COORDINATOR = "- {name: coordinator, kind: broker-log, root: logs, topics: {include: [none]}}"


Moments = Iterator[tuple[str, Settings]]
Scenario = Callable[[Path], Moments]


def sample_runs(place: Path) -> Moments:
    """Both runs of the sample, then a backfill after an object has come late, then an expiry."""
    write_sample(place)
    config = place / CONFIG
    config.write_text(config.read_text() + "\nretention: {runs_days: 1, snapshots_days: 1, staged_days: 1}\n")
    _set_times(place)
    settings = load_settings(config)
    for day in RUN_DATES:
        _run(settings, day)
        yield f"after {day}", settings
    late = max((place / "gateway" / f"dt={RUN_DATES[0]}").rglob("*.batches"))
    shutil.copy2(late, late.with_name("9999.batches"))
    _set_times(place)
    request = BackfillRequest(first=RUN_DATES[0], last=RUN_DATES[0])
    list(run_backfill(settings, request, spark=InProcess(), progress=QUIET, until=Step.PUBLISH))
    yield "after the backfill", settings
    expire(settings)
    yield "", settings


def broker_log(recording: str) -> Scenario:
    """A recorded broker's log directory."""

    def scenario(place: Path) -> Moments:
        shutil.copytree(DATA / recording / "data", place / "logs")
        _set_times(place)
        settings = _log_settings(place)
        _run(settings, RECORDED)
        yield "", settings

    return scenario


def growing_broker_log(recording: str) -> Scenario:
    """A log directory whose newest segments have half of their batches in the first of two runs."""

    def scenario(place: Path) -> Moments:
        shutil.copytree(
            DATA / recording / "data", place / "logs", ignore=shutil.ignore_patterns("*.snapshot")
        )
        whole = {newest: newest.read_bytes() for newest in _newest_segments(place / "logs")}
        for path, log in whole.items():
            ends = [batch.end for batch in scan(log)]
            path.write_bytes(log[: ends[len(ends) // 2 - 1]] if len(ends) > 1 else b"")
        _set_times(place)
        settings = _log_settings(place)
        _run(settings, RECORDED)
        yield "while half is written", settings
        for path, log in whole.items():
            path.write_bytes(log)
        _set_times(place)
        _run(settings, RECORDED + timedelta(days=1))
        yield "", settings

    return scenario


def capture(recording: str, *, has_markers: bool, version: str) -> Scenario:
    """What producers sent to a recorded broker, with its markers or beside its coordinator's log."""

    def scenario(place: Path) -> Moments:
        found = with_markers(recording, produced(recording))
        batches = [each for each in found if has_markers or each.error is not None]
        options = f"markers: {str(has_markers).lower()}"
        yield "", _captured(place, batches, recording, options, version)

    return scenario


def appended_capture(recording: str) -> Scenario:
    """What a recorded broker took of its producers, beside its coordinator's log."""

    def scenario(place: Path) -> Moments:
        yield "", _captured(place, appended(recording), recording, "markers: false", "TV2")

    return scenario


def parked_capture(place: Path) -> Moments:
    """A gap that fills two runs later, and one that never does."""
    config = CAPTURE.format(options="on_gap: park, markers: true", others="", version="TV2")
    settings = parse_settings(config, name="golden.yaml", base=place)
    objects = {
        1: [batch(0), batch(2), batch(0, pid=2, txn=True)],
        2: [batch(3), marker(ControlType.COMMIT, pid=2), batch(7, pid=3)],
        3: [batch(1), batch(0, pid=4, count=3)],
    }
    for day, batches in objects.items():
        file = place / "capture" / f"dt=2024-05-{day:02d}" / "orders-0" / "a"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"".join(batches))
    _set_times(place)
    for day in objects:
        _run(settings, date(2024, 5, day))
    yield "", settings


def replayed(place: Path) -> Moments:
    """A value that did not fit its schema, replayed once the schema is right."""
    shop = Shop(place)
    shop.arrive(1, *(batch(number, value=value) for number, value in enumerate((b'{"amount": 1}', b"{}"))))
    _set_times(place)
    origin = run_shop(shop.settings("[note]"), 1).run_id
    settings = shop.settings("[]")
    decide(settings, Selection(run_id=origin), why="the note is optional")
    run_shop(settings, 2)
    yield "", settings


SCENARIOS: dict[str, Scenario] = {
    "sample": sample_runs,
    **{f"broker-log {name}": broker_log(name) for name in LOGS},
    **{
        f"capture {name}": capture(name, has_markers=True, version=version)
        for name, version in (CAPTURES | MORE_CAPTURES).items()
    },
    **{
        f"capture {name} without markers": capture(name, has_markers=False, version=version)
        for name, version in CAPTURES.items()
    },
    **{f"capture {name} without markers": appended_capture(name) for name in APPENDED},
    "growing broker-log oracle_E": growing_broker_log("oracle_E"),
    "parked": parked_capture,
    "replay": replayed,
}


def _log_settings(place: Path) -> Settings:
    config = "lake: lake\nsources: [{name: broker, kind: broker-log, root: logs}]\n"
    return parse_settings(config, name="golden.yaml", base=place)


def _newest_segments(logs: Path) -> list[Path]:
    return [max(each.glob("*.log")) for each in sorted(logs.iterdir()) if any(each.glob("*.log"))]


def _captured(
    place: Path, batches: Iterable[CapturedBatch], recording: str, options: str, version: str
) -> Settings:
    shutil.copytree(DATA / recording / "data", place / "logs")
    for number, each in enumerate(batches):
        file = place / "capture" / f"dt={RECORDED}" / str(each.topic_partition) / f"{number:06d}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(each.records)
    _set_times(place)
    others = COORDINATOR if any((place / "logs").glob("__transaction_state-*")) else ""
    config = CAPTURE.format(options=options, others=others, version=version)
    settings = parse_settings(config, name="golden.yaml", base=place)
    _run(settings, RECORDED)
    return settings


def _run(settings: Settings, day: date) -> None:
    execute_run(settings, day, until=Step.PUBLISH, spark=InProcess(), progress=QUIET)


def _set_times(place: Path) -> None:
    for path in place.rglob("*"):
        if "lake" not in path.relative_to(place).parts:
            os.utime(path, (COPIED_AT, COPIED_AT))
