"""A log in a bucket reads like the same log in a directory, and a bucket that fails in the middle raises."""

from collections.abc import Callable

import pytest

from spark_jobs.lake.errors import ObjectChanged, StorageError, StoreUnavailable
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.reading import segment_scan
from spark_jobs.reading.errors import NotKafka
from spark_jobs.reading.query import QueryFailed, open_log, read_rows
from spark_jobs.reading.read_log import read_log
from spark_jobs.reading.scan_log import scan_log
from spark_jobs.reading.spark_source import KafkaLog
from tests.faulty_s3 import Spoiled, faulty_s3
from tests.reading.conftest import RECORDINGS, read
from tests.s3_server import S3Server

DATA = next(path for path in RECORDINGS if path.name == "oracle_A") / "data"


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a log directory in a bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint_url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    name = s3_server.new_bucket()
    store = S3Store(f"s3://{name}/kafka/data", s3_server.settings)
    for file in DATA.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(DATA)), file.read_bytes())
    return store.url


@pytest.mark.usefixtures("either_reader")
def test_records_are_those_of_the_directory(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "WINDOW_BYTES", 1000)  # batches are larger than some windows

    assert read(bucket).equals(read(DATA))


@pytest.mark.parametrize("below", ["orc-0", "orc-0/00000000000000000000.log"])
def test_partitions_and_segments_have_an_address_too(bucket: str, below: str) -> None:
    isolation = "read_uncommitted"

    assert read(f"{bucket}/{below}", isolation=isolation).equals(read(DATA / below, isolation=isolation))


def test_headers_are_those_of_the_directory(bucket: str) -> None:
    assert scan_log(bucket).batches.equals(scan_log(DATA).batches)


@pytest.mark.parametrize("wrong", ["kafka/nothing", "kafka/data/orc-0/00000000000000009999.log", ""])
def test_an_address_without_a_log_is_an_error(bucket: str, wrong: str) -> None:
    with pytest.raises(NotKafka):
        read(f"{bucket.partition('/kafka')[0]}/{wrong}")


def test_a_bucket_that_does_not_exist_is_an_error(bucket: str) -> None:
    assert bucket
    with pytest.raises(StorageError):
        read("s3://no-such-bucket/data")


def _read_log(url: str) -> object:
    return read_log(url).read_all()


def _query(url: str) -> object:
    return list(read_rows(open_log(url), "SELECT value FROM records")[1])


def _kafka_log(url: str) -> object:
    source = KafkaLog({"path": url})
    reader = source.reader(source.schema())
    return [list(reader.read(partition)) for partition in reader.partitions()]


@pytest.mark.usefixtures("either_reader")
@pytest.mark.parametrize(
    ("work", "error"),
    [(_read_log, StoreUnavailable), (_kafka_log, StoreUnavailable), (_query, QueryFailed)],
    ids=["read_log", "kafka-log", "query"],
)
def test_a_bucket_that_fails_in_the_middle_raises(
    bucket: str,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[str], object],
    error: type[Exception],
) -> None:
    segments: list[str] = []

    def fault(method: str, path: str) -> Spoiled | None:
        if method != "GET" or not path.endswith(".log"):
            return None
        segments.append(path)
        return Spoiled(status=503) if len(segments) > 12 else None

    with faulty_s3(s3_server.endpoint_url) as faulty:
        faulty.spoil(fault)
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint_url)
        with pytest.raises(error, match=r"s3://.*the server failed") as raised:
            work(bucket)
    assert "Traceback" not in str(raised.value)
    assert len(segments) > 12


def test_an_object_that_is_replaced_in_between_raises(bucket: str, s3_server: S3Server) -> None:
    reader = read_log(bucket, topics=["orc"])
    store, segment = S3Store(bucket, s3_server.settings), "orc-2/00000000000000000000.log"
    store.put(segment, store.read(segment) + store.read("orc-1/00000000000000000000.log"))

    with pytest.raises(ObjectChanged):
        reader.read_all()
