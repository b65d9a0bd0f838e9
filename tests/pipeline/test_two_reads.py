"""A run reads its input twice: `stage` or `index` for checksums, `materialise` for records."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header, write_header
from spark_jobs.lake import file_store
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.layout import STAGING, object_key, step_key
from spark_jobs.lake.run_folder import DONE
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.stage import fetch, worker
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.index.objects import batch

DAY = date(2024, 5, 1)
CAPTURE = "{{name: gateway, kind: capture, root: '{root}', dates: 'dt=%Y-%m-%d', immutable: {immutable}}}"
BROKER_LOG = "{{name: broker, kind: broker-log, root: '{root}', immutable: {immutable}}}"
VALUE = bytes(range(250)) * 12
BATCHES = 600
"""Of 3 KB each: smaller than those of captures that are identified by headers."""


class CountedReads:
    """Bytes of the source and of its copies in the lake that were read or mapped."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes, self._pread, self._map = 0, os.pread, file_store.map_range
        patch.setattr(os, "pread", self._read)
        patch.setattr(file_store, "map_range", self._mapped)

    def _read(self, file: int, length: int, start: int) -> bytes:
        data = self._pread(file, length, start)
        self._count(file, len(data))
        return data

    def _mapped(self, file: int, start: int, end: int) -> memoryview | None:
        data = self._map(file, start, end)
        self._count(file, 0 if data is None else len(data))
        return data

    def _count(self, file: int, length: int) -> None:
        place = str(Path(f"/proc/self/fd/{file}").readlink())
        self.bytes += length if "/source/" in place or "/objects/" in place else 0


@pytest.fixture(autouse=True)
def _with_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where so little is read that it would not pay."""
    monkeypatch.setattr(fetch, "FEWEST_WITH_HEADERS", 1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> CountedReads:
    return CountedReads(monkeypatch)


def _log(batches: int) -> bytes:
    """A broker's segment: offsets are not covered by checksums."""
    found = (batch(number, value=VALUE) for number in range(batches))
    headers = ((replace(read_header(each), base_offset=number), each) for number, each in enumerate(found))
    return b"".join(write_header(header) + each[HEADER_SIZE:] for header, each in headers)


def _capture(batches: int) -> bytes:
    return b"".join(batch(number, value=VALUE) for number in range(batches))


def _settings(place: Path, source: str, *, immutable: bool, more: str = "") -> Settings:
    listed = source.format(root=place / "source", immutable=str(immutable).lower())
    return parse_settings(f"lake: lake\nsources:\n  - {listed}\n{more}", name="test.yaml", base=place)


def _write(place: Path, *, is_log: bool, tail: bytes = b"") -> int:
    size = 0
    for partition in range(2):
        directory = place / "source" / (f"orders-{partition}" if is_log else f"dt={DAY}/orders-{partition}")
        directory.mkdir(parents=True)
        data = (_log(BATCHES) if is_log else _capture(BATCHES)) + tail
        (directory / ("0" * 20 + ".log" if is_log else "a")).write_bytes(data)
        size += len(data)
    return size


def _run(settings: Settings, until: Step = Step.MATERIALISE) -> str:
    return execute_run(
        settings, DAY, until=until, spark=InProcess(), progress=RunProgress(Console(quiet=True))
    ).run_id


def _headers(settings: Settings) -> list[str]:
    return [each.key for each in open_lake(settings).list(STAGING) if "/headers/" in each.key]


def _index_outputs(settings: Settings, run_id: str) -> dict[str, bytes]:
    lake = open_lake(settings)
    found = [each.key for each in lake.list(step_key(run_id, Step.INDEX))]
    return {key: lake.read(key) for key in found if not key.endswith(DONE)}


@pytest.mark.parametrize("immutable", [True, False])
@pytest.mark.parametrize("source", [CAPTURE, BROKER_LOG])
def test_input_is_read_twice(tmp_path: Path, reads: CountedReads, source: str, *, immutable: bool) -> None:
    size = _write(tmp_path, is_log=source == BROKER_LOG)
    settings = _settings(tmp_path, source, immutable=immutable)

    _run(settings)

    assert 1.9 * size < reads.bytes <= 2.1 * size
    assert _headers(settings) == []


@pytest.mark.parametrize("tail", [b"", batch(0)[:-2], bytes(5000), b"no batch at all"])
@pytest.mark.parametrize("ranges", ["", "limits: {range_bytes: 100000}\n"])
def test_a_run_without_the_headers_has_the_same_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes, ranges: str
) -> None:
    found: list[tuple[str, dict[str, bytes]]] = []
    for name, smallest in (("with", 2**20), ("without", 2**60)):
        place = tmp_path / name
        _write(place, is_log=True, tail=tail)
        monkeypatch.setattr(worker, "SMALLEST_FILE", smallest)
        settings = _settings(place, BROKER_LOG, immutable=False, more=ranges)
        _run(settings, Step.STAGE)
        assert len(_headers(settings)) == (1 if name == "with" else 0)  # both partitions have the same bytes
        run_id = _run(settings, Step.INDEX)
        found.append((run_id, _index_outputs(settings, run_id)))
    assert found[0] == found[1]


def test_headers_that_were_removed_before_index_are_not_missed(tmp_path: Path, reads: CountedReads) -> None:
    size = _write(tmp_path, is_log=True)
    settings = _settings(tmp_path, BROKER_LOG, immutable=True)
    _run(settings, Step.STAGE)
    for key in _headers(settings):
        open_lake(settings).delete(key)

    _run(settings)

    assert reads.bytes > 2.9 * size


def test_a_run_that_reads_little_has_no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = _write(tmp_path, is_log=True)
    monkeypatch.setattr(fetch, "FEWEST_WITH_HEADERS", size + 1)
    settings = _settings(tmp_path, BROKER_LOG, immutable=False)
    _run(settings, Step.STAGE)
    assert _headers(settings) == []


def test_captures_of_compacted_topics_have_no_headers(tmp_path: Path) -> None:
    _write(tmp_path, is_log=False)
    more = "topics: {orders: {cleanup_policy: compact}}\n"
    settings = _settings(tmp_path, CAPTURE, immutable=False, more=more)
    _run(settings, Step.STAGE)
    assert _headers(settings) == []


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
@pytest.mark.parametrize("damage", [lambda data: data[:-9] + b"?" + data[-8:], lambda data: data[:-100]])
def test_a_coordinators_log_that_was_damaged_after_stage_is_not_folded(
    tmp_path: Path, topic: str, damage: Callable[[bytes], bytes]
) -> None:
    _write(tmp_path, is_log=True)
    directory = tmp_path / "source" / f"{topic}-0"
    directory.mkdir()
    data = _log(BATCHES + 1)
    (directory / ("0" * 20 + ".log")).write_bytes(data)
    settings = _settings(tmp_path, BROKER_LOG, immutable=False)
    _run(settings, Step.STAGE)
    copy = Path(settings.lake, object_key(sha256(data).hexdigest()))
    copy.write_bytes(damage(data))

    with pytest.raises(StorageError, match="not those that were indexed"):
        _run(settings, Step.RESOLVE)


def test_an_older_copy_in_the_lake_is_read_by_index(tmp_path: Path) -> None:
    _write(tmp_path, is_log=True)
    settings = _settings(tmp_path, BROKER_LOG, immutable=False)
    open_lake(settings).put(object_key(sha256(_log(BATCHES)).hexdigest()), _log(BATCHES))

    _run(settings, Step.STAGE)

    assert _headers(settings) == []
