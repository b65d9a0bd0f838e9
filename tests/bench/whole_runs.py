"""Whole runs, `stage` included, as users have them: objects are copied into the lake, on files and on S3."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_store
from tests.bench.mix_data import Mix, coordinator_of, objects_of, write_mix
from tests.bench.onceover import accepted_log
from tests.bench.runs import DAY, RunMeasured, measured_run
from tests.bench.workspace import Row, Workspace
from tests.s3_server import S3Server, running_s3_server

MARKED = "{{name: gateway, kind: capture, root: '{root}', dates: 'dt=%Y-%m-%d', markers: true}}"
UNMARKED = "{{name: gateway, kind: capture, root: '{root}', dates: 'dt=%Y-%m-%d'}}"
BROKER_LOG = "{{name: broker, kind: broker-log, root: '{root}'}}"
CUT_SHORT = "audit: {severities: {most_transactions_are_decided: warning}}\n"
"""A small log has only transactions whose markers come at its end, where the first copy is cut."""
NEXT_DAY = DAY + timedelta(days=1)


def measure(space: Workspace) -> Sequence[Row]:
    """A capture with and without markers, a broker's log and its next copy, and captures on S3."""
    return [
        space.best(partial(on_files, space, is_marked=True), _times(space)),
        space.best(partial(on_files, space, is_marked=False), _times(space)),
        *grown_log(space),
        *on_s3(space),
    ]


def _times(space: Workspace) -> int:
    return max(space.volume.times - 1, 1)


def capture_of(space: Workspace, *, is_marked: bool) -> Path:
    mix = Mix(records=space.volume.records, codec=space.volume.compared, markers=is_marked)
    return write_mix(space.home / "mix", mix)


def sources_of(root: str, coordinator: str, *, is_marked: bool) -> tuple[str, ...]:
    """Markers in the capture, or the coordinator's log beside it."""
    return (
        (MARKED.format(root=root),)
        if is_marked
        else (UNMARKED.format(root=root), BROKER_LOG.format(root=coordinator).replace("broker,", "log,"))
    )


def settings_of(lake: str, sources: Sequence[str], base: Path, more: str = "") -> Settings:
    listed = "".join(f"\n  - {source}" for source in sources)
    return parse_settings(f"lake: '{lake}'\nsources:{listed}\n{more}", name="bench.yaml", base=base)


def on_files(space: Workspace, *, is_marked: bool) -> Row:
    """A run in a lake beside its source."""
    capture = capture_of(space, is_marked=is_marked)
    with _lake(space) as lake:
        sources = sources_of(str(capture), str(coordinator_of(capture)), is_marked=is_marked)
        found = measured_run(settings_of(str(lake), sources, lake), space.spark)
    name = "markers" if is_marked else "coordinator's log"
    return _row(f"whole run, files, {name}", space, found, objects_of(capture))


def grown_log(space: Workspace) -> Sequence[Row]:
    """A copy of a broker's log, and the next one in which every partition has a hundredth more."""
    log = accepted_log(space, space.volume.compared)
    files = sorted(log.glob("*/*.log"))
    with _lake(space) as lake:
        copy, sources = lake / "copy", (BROKER_LOG.format(root="copy"),)
        settings = settings_of("lake", sources, lake, CUT_SHORT)
        _copy(log, copy, share=0.99)
        first = measured_run(settings, space.spark)
        shutil.rmtree(copy)
        _copy(log, copy, share=1.0)
        second = measured_run(settings, space.spark, day=NEXT_DAY)
    return [
        _row("whole run, files, broker-log", space, first, files),
        _row("whole run, files, broker-log, next copy", space, second, files),
    ]


def on_s3(space: Workspace) -> Sequence[Row]:
    """The same captures where source and lake are buckets of a server on this machine."""
    try:
        with (
            running_s3_server(space.home / "s3" / os.urandom(4).hex(), space.s3_keys) as server,
            _credentials(server),
        ):
            rows = [
                space.best(partial(_on_s3, space, server, is_marked=each), _times(space))
                for each in (True, False)
            ]
    except pytest.skip.Exception as reason:
        return [Row(title="whole run, S3", note=str(reason))]
    finally:
        shutil.rmtree(space.home / "s3", ignore_errors=True)
    return rows


def _on_s3(space: Workspace, server: S3Server, *, is_marked: bool) -> Row:
    capture, bucket = capture_of(space, is_marked=is_marked), server.new_bucket()
    root = f"s3://{bucket}"
    for directory in (capture, coordinator_of(capture)):
        _upload(directory, open_store(f"{root}/{directory.name}", server.settings))
    sources = sources_of(f"{root}/capture", f"{root}/coordinator", is_marked=is_marked)
    more = f"s3: {{endpoint_url: '{server.endpoint_url}', addressing: path}}\n"
    with _lake(space) as base, _loopback() as traffic:
        more += f"catalog: {{kind: sql, uri: 'sqlite:///{base}/catalog.db', warehouse: '{root}/tables'}}\n"
        found = measured_run(settings_of(f"{root}/lake", sources, base, more), space.spark)
    shutil.rmtree(server.files / bucket)
    name = "markers" if is_marked else "coordinator's log"
    row = _row(f"whole run, S3, {name}", space, found, objects_of(capture))
    row.numbers["network bytes"] = traffic()
    return row


def _upload(directory: Path, store: ObjectStore) -> None:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            store.put(str(path.relative_to(directory)), path.read_bytes())


@contextmanager
def _lake(space: Workspace) -> Iterator[Path]:
    scratch = space.home / "lakes"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="whole-", dir=scratch) as directory:
        yield Path(directory)


@contextmanager
def _credentials(server: S3Server) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield


class _Traffic:
    """Bytes over the loopback interface since the start: reads do not count what sockets receive."""

    def __init__(self) -> None:
        self._before = _loopback_bytes()

    def __call__(self) -> float:
        return float(_loopback_bytes() - self._before)


@contextmanager
def _loopback() -> Iterator[_Traffic]:
    yield _Traffic()


def _loopback_bytes() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def _copy(log: Path, copy: Path, *, share: float) -> None:
    """The log up to a share of the bytes of its last segments."""
    for directory in sorted(path for path in log.iterdir() if path.is_dir()):
        (copy / directory.name).mkdir(parents=True)
        *closed, active = sorted(directory.glob("*.log"))
        for path in closed:
            shutil.copyfile(path, copy / directory.name / path.name)
        data = active.read_bytes()
        (copy / directory.name / active.name).write_bytes(data[: int(len(data) * share)])


def _row(title: str, space: Workspace, found: RunMeasured, files: Sequence[Path]) -> Row:
    return Row(
        title=title,
        data=space.volume.compared.name.lower(),
        seconds=found.seconds,
        cpu_seconds=found.cpu_seconds,
        records=found.counts["materialise"]["records"],
        bytes=sum(path.stat().st_size for path in files),
        numbers=found.numbers,
    )
