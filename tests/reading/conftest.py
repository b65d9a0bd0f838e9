"""What the tests of readers share: the sample log, and records in the form of a recorded consumer."""

import warnings
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.reading import partition_scan
from spark_jobs.reading.errors import TornTail
from spark_jobs.reading.read_log import read_log
from tests.sample.log_directory import write_sample
from tests.sample.partition_writer import MIDNIGHT

RECORDINGS = sorted(
    path.parent for path in (Path(__file__).parents[1] / "recordings/data").glob("*/truth.jsonl")
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLE_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of `tests.sample`; the log of its topic payments ends inside a batch."""
    directory = tmp_path_factory.mktemp("reading") / "sample"
    write_sample(directory)
    return directory


@pytest.fixture(params=["plain", "compiled"])
def either_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads without compiled code, and with it, whatever the size of the log."""
    monkeypatch.setattr(partition_scan, "is_fast_for", lambda *_, **__: request.param == "compiled")


def read(path: Path | str, **options: Any) -> pa.Table:
    """All records, without the warning of a torn tail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TornTail)
        return read_log(path, **options).read_all()


def base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(bytes(data)).decode()


def as_truth(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Rows in the form of `truth.jsonl`, by partition in their order."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        timestamp = row["timestamp"]
        record = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp": -1 if timestamp is None else round((timestamp - EPOCH).total_seconds() * 1000),
            "timestamp_type": row["timestamp_type"],
            "key": base64(row["key"]),
            "value": base64(row["value"]),
            "headers": [[header["key"], base64(header["value"])] for header in row["headers"]],
        }
        found.setdefault((row["topic"], row["partition"]), []).append(record)
    return found


def sample_truth() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What a read_committed consumer gets of the sample, derived from what was sent, not from a reader."""
    trace = [["trace", base64(b"a1")]]
    sent: dict[tuple[str, int], list[tuple[int, int, int, bytes | None, list[Any]]]] = {
        ("orders", 0): [
            (0, 0, 0, b"order 1", []),
            (1, 1, 1, b"order 2", []),
            (4, 4000, 0, b"order 4", trace),
        ],
        ("orders", 1): [(0, 0, 0, b"order 5", [])],
        ("payments", 0): [
            (3 * batch + n, 3000 * batch + n, n, value, [])
            for batch, codec in enumerate(_SAMPLE_CODECS)
            for n, value in enumerate((f"paid with {codec}".encode() * 8, None, b""))
        ],
    }
    return {
        (topic, partition): [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": MIDNIGHT + after,
                "timestamp_type": "CreateTime",
                "key": base64(b"key-%d" % key),
                "value": base64(value),
                "headers": headers,
            }
            for offset, after, key, value, headers in records
        ]
        for (topic, partition), records in sent.items()
    }
