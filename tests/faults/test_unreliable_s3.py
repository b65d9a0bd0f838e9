"""Whole runs whose sources and lake are a bucket on a server that is slow, errs, breaks off and dies."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.errors import StoreDenied, StoreUnavailable
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.lake.stores import open_lake, open_store
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import sample_files
from spark_jobs.sample.story import RUN_DATES
from tests.faults.processes import called_with, kill
from tests.faulty_s3 import Fault, FaultyS3, Spoiled, faulty_s3
from tests.in_process import InProcess
from tests.s3_server import S3Server, running_s3_server

CONFIG = """
lake: s3://{bucket}/{lake}
sources:
  - name: gateway
    kind: capture
    root: s3://{bucket}/sample/gateway
    dates: dt=%Y-%m-%d
    topics: {{include: [orders]}}
s3: {{endpoint_url: '{endpoint}', addressing: path, max_attempts: 4, read_timeout_s: {seconds}}}
"""


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    """A bucket with the sample in it."""
    return _sample_on(s3_server)


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server.endpoint_url) as between:
        yield between


UPLOADED = 1_772_409_600
"""When objects were uploaded, in seconds since 1970: manifests note it."""


def _sample_on(server: S3Server) -> str:
    """A new bucket that holds what the gateway captured in the first run, each time as old as the last."""
    bucket = server.new_bucket()
    store = S3Store(f"s3://{bucket}/sample", server.settings)
    for path, data in sample_files():
        if path.startswith(f"gateway/dt={RUN_DATES[0]}"):
            store.put(path, data)
            os.utime(server.files / bucket / "sample" / path, (UPLOADED, UPLOADED))
    return bucket


def _settings(bucket: str, endpoint_url: str, lake: str, *, seconds: int = 20) -> Settings:
    text = CONFIG.format(bucket=bucket, endpoint=endpoint_url, lake=lake, seconds=seconds)
    return parse_settings(text, name="test.yaml", base=Path("/"))


def _run(settings: Settings) -> None:
    open_store.cache_clear()
    progress = RunProgress(Console(quiet=True))
    execute_run(settings, RUN_DATES[0], until=Step.MATERIALISE, spark=InProcess(), progress=progress)


def _content(lake: ObjectStore) -> dict[str, bytes]:
    """What a run leaves, by key."""
    return {found.key: lake.read(found.key) for part in ("runs", "state") for found in lake.list(part)}


@pytest.fixture(scope="module")
def undisturbed(bucket: str, s3_server: S3Server) -> dict[str, bytes]:
    settings = _settings(bucket, s3_server.endpoint_url, "undisturbed")
    _run(settings)
    return _content(open_lake(settings))


def _every(number: int, spoiled: Spoiled, *, method: str = "") -> Fault:
    """Spoils every `number`th answer, to `method` if one is named; none to who asks again because of it.

    Threads ask in any order: without that, all tries of one of them could be such answers.
    """
    counted, last = iter(range(1, 1 << 60)), set[str]()

    def fault(asked: str, path: str) -> Spoiled | None:
        if method not in {"", asked} or next(counted) % number:
            return None
        if path in last:
            last.discard(path)
            return None
        last.add(path)
        return spoiled

    return fault


FAULTS: dict[str, Callable[[], Fault]] = {
    "errors": lambda: _every(5, Spoiled(status=500)),
    "answers get lost": lambda: _every(9, Spoiled(status=500, lost=True), method="PUT"),
    "bodies break off": lambda: _every(3, Spoiled(body_bytes=100), method="GET"),
    "slow": lambda: _every(80, Spoiled(wait_s=2.5)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_on_an_unreliable_server_yields_the_same_bytes(
    fault: str, bucket: str, proxy: FaultyS3, undisturbed: dict[str, bytes]
) -> None:
    seconds = 2 if fault == "slow" else 20
    settings = _settings(bucket, proxy.endpoint_url, f"lake-{fault.replace(' ', '-')}", seconds=seconds)
    proxy.spoil(FAULTS[fault]())
    try:
        _run(settings)
    finally:
        proxy.spoil(lambda method, path: None)
    assert _content(open_lake(settings)) == undisturbed


LASTING: dict[str, tuple[Spoiled, type[Exception], str]] = {
    "down": (Spoiled(status=500), StoreUnavailable, "the server failed at every attempt"),
    "denied": (Spoiled(status=403), StoreDenied, "check the credentials and the bucket's policy"),
    "torn": (Spoiled(body_bytes=3), StoreUnavailable, "no attempt got the whole body|no valid response"),
}


@pytest.mark.parametrize("fault", LASTING)
def test_a_server_that_does_not_recover_is_named_and_the_next_run_continues(
    fault: str, bucket: str, proxy: FaultyS3, undisturbed: dict[str, bytes]
) -> None:
    spoiled, error, words = LASTING[fault]
    settings = _settings(bucket, proxy.endpoint_url, fault)
    counted = iter(range(1 << 60))
    proxy.spoil(lambda method, path: spoiled if method == "GET" and next(counted) > 60 else None)
    try:
        with pytest.raises(error, match=words) as failed:
            _run(settings)
    finally:
        proxy.spoil(lambda method, path: None)
    assert bucket in str(failed.value)
    _run(settings)
    assert _content(open_lake(settings)) == undisturbed


def test_a_server_that_dies_in_the_run_is_named_and_the_next_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    with running_s3_server(tmp_path / "first") as server, faulty_s3(server.endpoint_url) as between:
        _use(server, monkeypatch)
        bucket = _sample_on(server)
        between.spoil(_die(server, after=100))
        with pytest.raises(StoreUnavailable, match="no valid response"):
            _run(_settings(bucket, between.endpoint_url, "lake"))
    with running_s3_server(tmp_path / "second") as other:
        shutil.move(server.files / bucket, other.files / bucket)
        _use(other, monkeypatch)
        settings = _settings(bucket, other.endpoint_url, "lake")
        _run(settings)
        assert _content(open_lake(settings)) == undisturbed


def _use(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def _die(server: S3Server, *, after: int) -> Fault:
    """The server is killed when so many requests have come."""
    counted = iter(range(1 << 60))

    def fault(method: str, path: str) -> Spoiled | None:
        if next(counted) == after:
            kill(called_with("versitygw", str(server.files)))
        return None

    return fault
