"""Tiered storage reads like the closed segments of the log directory that it was uploaded from."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.lake.errors import KeyUnfit, ObjectDamaged, StorageError
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.reading.errors import NotKafka, TierEnds, Undecided, UnknownOption
from spark_jobs.reading.read_log import read_log
from spark_jobs.reading.scan_log import scan_log
from tests.reading.conftest import RECORDINGS, read
from tests.s3_server import S3Server
from tests.sources.tiers import (
    Aiven,
    Upload,
    partitions_of,
    private_key,
    uploads_of,
    uuid_of,
    write_local,
    write_pinterest,
)

DATA = next(path for path in RECORDINGS if path.name == "oracle_A") / "data"
TRANSACTIONS = DATA.parents[1] / "workload_clean" / "data"
KEY, OTHER_KEY = private_key(), private_key()
Write = Callable[[Path, Upload], Path]
LAYOUTS: dict[str, Write] = {
    "local": write_local,
    "pinterest": write_pinterest,
    "aiven": Aiven().write,
    "aiven, zstd": Aiven(is_compressed=True).write,
    "aiven, zstd and aes": Aiven(
        is_compressed=True, public_key=KEY.public_key(), key_prefix="some/where-"
    ).write,
}
KEYS = {"key-1": "env:TIER_KEY"}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_KEY", KEY.export_key().decode())


def upload_all(tier: Path, write: Write, data: Path = DATA) -> None:
    for directory in partitions_of(data):
        for upload in uploads_of(directory):
            write(tier, upload)


def write_plain(data: Path, upload: Upload) -> Path:
    """The segment in a log directory."""
    directory = data / f"{upload.topic}-{upload.partition}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{upload.start:020d}.log"
    path.write_bytes(upload.log)
    return path


def closed() -> pa.Table:
    """The records of the closed segments, read from the whole log directory."""
    found = read(DATA)
    parts = []
    for directory in partitions_of(DATA):
        topic, _, number = directory.name.rpartition("-")
        of_partition = found.filter(
            (pc.field("topic") == topic)
            & (pc.field("partition") == int(number))
            & (pc.field("offset") < uploads_of(directory)[-1].end)
        )
        parts.append(of_partition)
    return pa.concat_tables(parts)


def tier_read(place: Path | str, isolation: str = "read_committed") -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TierEnds)
        return read_log(place, isolation=isolation, encryption_keys=KEYS).read_all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_records_are_those_of_the_closed_segments(layout: str, isolation: str, tmp_path: Path) -> None:
    upload_all(tmp_path / "tier", LAYOUTS[layout], TRANSACTIONS)
    upload_all(tmp_path / "log", write_plain, TRANSACTIONS)
    expected = read(tmp_path / "log", isolation=isolation)
    assert expected.num_rows
    assert tier_read(tmp_path / "tier", isolation).equals(expected)


@pytest.mark.parametrize("layout", ["local", "pinterest", "aiven, zstd and aes"])
def test_a_partition_and_a_segment_have_a_path_of_their_own(layout: str, tmp_path: Path) -> None:
    upload = uploads_of(DATA / "orc-1")[0]
    log = LAYOUTS[layout](tmp_path, upload)
    for place in (log.parent, log):
        found = tier_read(place, "read_uncommitted")
        assert set(zip(found["topic"].to_pylist(), found["partition"].to_pylist(), strict=True)) == {
            ("orc", 1)
        }
        assert all(row["offset"] < upload.end for row in found.to_pylist())


@pytest.mark.parametrize("layout", ["local", "pinterest", "aiven, zstd and aes"])
def test_a_bucket_reads_like_the_directory(
    layout: str, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint_url)
    upload_all(tmp_path, LAYOUTS[layout])
    store = S3Store(f"s3://{s3_server.new_bucket()}/prefix", s3_server.settings)
    for path in tmp_path.rglob("*.*"):
        if path.is_file():
            store.put(str(path.relative_to(tmp_path)), path.read_bytes())
    assert tier_read(store.url).equals(closed())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TierEnds)
        scanned = scan_log(store.url, encryption_keys=KEYS)
        assert scanned.batches.equals(scan_log(tmp_path, encryption_keys=KEYS).batches)


def test_a_warning_names_the_end_of_the_tier_and_what_is_undecided_there(tmp_path: Path) -> None:
    uploads = uploads_of(DATA / "orc-1")
    for upload in uploads:
        write_local(tmp_path, upload)
    with pytest.warns(TierEnds, match=f"the tier ends at offset {uploads[-1].end}; later records are in"):
        read_log(tmp_path).read_all()
    remarks = scan_log(tmp_path).remarks.to_pylist()
    assert any(f"the tier ends at offset {uploads[-1].end}" in row["remark"] for row in remarks)


def test_open_transactions_at_the_end_are_left_out_and_named(tmp_path: Path) -> None:
    upload, offset = next(
        (upload, offset)
        for directory in partitions_of(TRANSACTIONS)
        for upload in uploads_of(directory)
        if (offset := first_transactional(upload.log)) is not None
    )
    write_local(tmp_path, replace(upload, log=until(upload.log, offset)))
    sentence = f"markers of 1 open transaction: read_committed ends at offset {offset}$"
    with pytest.warns(TierEnds, match=sentence):
        found = read_log(tmp_path).read_all()
    assert all(row["offset"] < offset for row in found.to_pylist())


def batches(log: bytes) -> Iterator[tuple[int, int, int]]:
    """(offset, attributes, end in bytes) of each batch."""
    position = 0
    while position < len(log):
        offset, length = (
            int.from_bytes(log[position:][:8], "big"),
            int.from_bytes(log[position + 8 :][:4], "big"),
        )
        attributes = int.from_bytes(log[position + 21 :][:2], "big")
        position += 12 + length
        yield offset, attributes, position


def first_transactional(log: bytes) -> int | None:
    return next((offset for offset, attributes, _ in batches(log) if attributes & 0x30 == 0x10), None)


def until(log: bytes, offset: int) -> bytes:
    """The batches up to the one at `offset`."""
    return log[: next(end for first, _, end in batches(log) if first == offset)]


def test_a_retried_and_a_merged_upload_are_read_once(tmp_path: Path) -> None:
    upload_all(tmp_path, write_local)
    one, other = uploads_of(DATA / "orc-1")[:2]
    write_local(tmp_path, one, attempt=1)
    merged = replace(one, log=one.log + other.log, end=other.end)
    write_local(tmp_path, merged, attempt=2)
    assert tier_read(tmp_path).equals(closed())


def test_uploads_that_differ_are_refused(tmp_path: Path) -> None:
    one, other, *_ = uploads_of(DATA / "orc-1")
    write_local(tmp_path, one)
    foreign = until(other.log, other.start)
    write_local(tmp_path, replace(one, log=one.start.to_bytes(8, "big") + foreign[8:]), attempt=1)
    with pytest.raises(Undecided, match="uploads have different batches at offset"):
        tier_read(tmp_path)


def test_an_incomplete_upload_is_a_gap_that_is_named(tmp_path: Path) -> None:
    found = map(uploads_of, partitions_of(TRANSACTIONS))
    uploads = next(each for each in found if len(each) > 2)
    for upload in uploads:
        path = write_local(tmp_path, upload)
        if upload is uploads[1]:
            path.with_suffix(".snapshot").unlink()
    sentence = (
        f"offsets {uploads[1].start} to {uploads[1].end - 1} are in no whole upload.*1 incomplete upload"
    )
    with pytest.raises(Undecided, match=sentence):
        read_log(tmp_path).read_all()
    with pytest.warns(TierEnds) as caught:
        assert read_log(tmp_path, isolation="read_uncommitted").read_all().num_rows
    assert re.search(sentence, str(caught[0].message))


def test_a_tier_without_a_whole_upload_is_refused(tmp_path: Path) -> None:
    write_local(tmp_path, uploads_of(DATA / "orc-1")[0]).with_suffix(".snapshot").unlink()
    with pytest.raises(NotKafka, match="without a whole upload"):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("keys", "error", "sentence"),
    [
        ({}, KeyUnfit, "encrypted with the key 'key-1'"),
        ({"key-1": "env:OTHER_KEY"}, KeyUnfit, "does not open the data key"),
        ({"key-1": "-----BEGIN PRIVATE KEY-----"}, UnknownOption, "never the key itself"),
    ],
)
def test_wrong_keys(
    keys: dict[str, str],
    error: type[Exception],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTHER_KEY", OTHER_KEY.export_key().decode())
    LAYOUTS["aiven, zstd and aes"](tmp_path, uploads_of(DATA / "orc-1")[0])
    with pytest.raises(error, match=sentence):
        read_log(tmp_path, encryption_keys=keys).read_all()


@pytest.mark.parametrize("layout", ["aiven, zstd", "aiven, zstd and aes", "local"])
def test_a_damaged_upload_is_an_error(layout: str, tmp_path: Path) -> None:
    path = LAYOUTS[layout](tmp_path, uploads_of(DATA / "orc-1")[0])
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises((ObjectDamaged, CorruptData)):
        tier_read(tmp_path)
    path.write_bytes(data[:-7])
    with pytest.raises((ObjectDamaged, CorruptData)):
        tier_read(tmp_path)


def test_a_manifest_of_another_segment_is_an_error(tmp_path: Path) -> None:
    one, other, *_ = uploads_of(DATA / "orc-1")
    write = LAYOUTS["aiven"]
    paths = [write(tmp_path, each).with_suffix(".rsm-manifest") for each in (one, other)]
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(ObjectDamaged, match="its manifest is of another segment"):
        tier_read(tmp_path)


def test_other_layouts_and_mixtures_are_named(tmp_path: Path) -> None:
    foreign = tmp_path / "redpanda" / "b525cddd" / "kafka" / "orders" / "0_19"
    foreign.mkdir(parents=True)
    (foreign / "4886-1-v1.log.2").write_bytes(b"x")
    with pytest.raises(NotKafka, match=r"Redpanda's tiered storage.*not supported"):
        read_log(tmp_path / "redpanda")
    rows = tmp_path / "iceberg" / "warehouse" / "orders" / "data"
    rows.mkdir(parents=True)
    (rows / "00000-0-4f.parquet").write_bytes(b"x")
    with pytest.raises(NotKafka, match="Iceberg mode"):
        read_log(tmp_path / "iceberg")
    upload = uploads_of(DATA / "orc-1")[0]
    write_local(tmp_path / "both", upload)
    Aiven().write(tmp_path / "both", upload)
    with pytest.raises(StorageError, match="layouts aiven and local"):
        read_log(tmp_path / "both")
    path = write_local(tmp_path / "ids", upload)
    path.parent.rename(path.parent.with_name(f"orc-1-{uuid_of('another')}"))
    write_local(tmp_path / "ids", upload)
    with pytest.raises(StorageError, match="several topic ids"):
        read_log(tmp_path / "ids")


def test_a_query_reads_an_encrypted_tier_and_says_where_it_ends(tmp_path: Path) -> None:
    upload_all(tmp_path, LAYOUTS["aiven, zstd and aes"])
    result = CliRunner().invoke(
        app,
        [
            "query",
            "--json",
            "--encryption-key",
            "key-1=env:TIER_KEY",
            "SELECT count(*) AS n FROM records",
            str(tmp_path),
        ],
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"n": closed().num_rows}
    assert "warning: " in result.stderr
    assert "the tier ends at offset" in result.stderr
