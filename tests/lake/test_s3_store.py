import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.config.settings import S3Settings
from spark_jobs.kernels.crc import Crc64Nvme
from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, StorageError, StoreDenied, StoreUnavailable
from spark_jobs.lake.s3_store import S3Store, checksum_of
from tests.faulty_s3 import FaultyS3, Spoiled, faulty_s3
from tests.s3_server import S3Server


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def behind(s3_server: S3Server, proxy: FaultyS3) -> S3Store:
    """A store that reaches its server through the proxy only."""
    settings = s3_server.settings.model_copy(
        update={"endpoint_url": proxy.endpoint_url, "read_timeout_s": 3, "part_bytes": 5 * 2**20}
    )
    return S3Store(f"s3://{s3_server.new_bucket()}", settings)


def test_more_objects_than_a_page_holds_are_all_listed(s3_store: S3Store) -> None:
    names = [f"many/{number:05d}" for number in range(1100)]
    with ThreadPoolExecutor(16) as workers:
        list(workers.map(lambda name: s3_store.put(name, b"x"), names))
    assert [found.key for found in s3_store.list("many")] == names


def test_a_page_is_reported_to_be_a_page(s3_store: S3Store) -> None:
    bucket, _, prefix = s3_store.url.removeprefix("s3://").partition("/")
    for name, kind in {"a.html": "text/html; charset=utf-8", "a.parquet": "binary/octet-stream"}.items():
        s3_store.put(name, b"x")
        head = s3_store._client.head_object(Bucket=bucket, Key=f"{prefix}/{name}")
        assert head["ContentType"] == kind


def test_placeholders_of_directories_are_no_objects(s3_store: S3Store, s3_server: S3Server) -> None:
    s3_store.put("a/b", b"")
    bucket = s3_store.url.removeprefix("s3://").partition("/")[0]
    (s3_server.files / bucket / "some" / "prefix" / "empty").mkdir(parents=True)
    assert [found.key for found in s3_store.list()] == ["a/b"]


def test_a_bucket_that_does_not_exist_is_named(s3_server: S3Server) -> None:
    store = S3Store("s3://no-such-bucket/x", s3_server.settings)
    with pytest.raises(StorageError, match=r"no-such-bucket/.*no such bucket"):
        list(store.list())


def test_wrong_credentials_are_denied_without_being_shown(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-and-private")
    with pytest.raises(StoreDenied, match="check the credentials") as caught:
        S3Store(f"s3://{s3_server.new_bucket()}", s3_server.settings).put("a", b"")
    shown = str(caught.value) + repr(caught.value.__cause__)
    assert "wrong-and-private" not in shown
    assert os.environ["AWS_ACCESS_KEY_ID"] not in str(caught.value)


def test_missing_credentials_say_where_they_are_looked_for(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(StoreDenied, match="environment, a profile or a role"):
        S3Store(f"s3://{s3_server.new_bucket()}", s3_server.settings).stat("a")


def test_a_denied_upload_of_parts_is_not_called_transient(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = S3Store(f"s3://{s3_server.new_bucket()}", s3_server.settings)
    path = store.scratch() / "file"
    path.write_bytes(b"x")
    with pytest.raises(StoreDenied):
        store.adopt(path, "a")


@pytest.mark.parametrize("ask", ["list", "stat", "read"])
def test_a_server_without_etags_is_reported_with_the_object_and_what_was_expected(
    ask: str, behind: S3Store, proxy: FaultyS3
) -> None:
    behind.put("a/b", b"body")
    proxy.spoil(lambda method, path: Spoiled(etags=False))
    asked: dict[str, Callable[[], object]] = {
        "list": lambda: list(behind.list("a")),
        "stat": lambda: behind.stat("a/b"),
        "read": lambda: behind.read("a/b"),
    }
    with pytest.raises(StorageError, match=r"/a/b: expected an ETag, .* the server sent none"):
        asked[ask]()


def test_a_few_server_errors_are_ridden_out(behind: S3Store, proxy: FaultyS3) -> None:
    behind.put("a", b"bytes")
    proxy.spoil_first(2, Spoiled(status=500))
    assert behind.read("a") == b"bytes"


def test_a_server_that_keeps_failing_is_transient(behind: S3Store, proxy: FaultyS3) -> None:
    proxy.spoil(lambda method, path: Spoiled(status=503))
    with pytest.raises(StoreUnavailable, match="the server failed at every attempt") as caught:
        behind.put("a", b"bytes")
    assert caught.value.transient


def test_a_body_that_breaks_off_is_read_again(behind: S3Store, proxy: FaultyS3) -> None:
    behind.put("a", bytes(range(256)) * 1000)
    proxy.spoil_first(2, Spoiled(body_bytes=1000))
    assert behind.read("a") == bytes(range(256)) * 1000


def test_a_body_that_always_breaks_off_is_never_taken_for_the_whole(behind: S3Store, proxy: FaultyS3) -> None:
    behind.put("a", bytes(5000))
    proxy.spoil(lambda method, path: Spoiled(body_bytes=1000))
    with pytest.raises(StoreUnavailable, match="no attempt got the whole body"):
        behind.read("a")


def test_an_answer_that_takes_too_long_is_asked_for_again(behind: S3Store, proxy: FaultyS3) -> None:
    behind.put("a", b"bytes")
    proxy.spoil_first(1, Spoiled(wait_s=5))
    assert behind.read("a") == b"bytes"


def test_an_exclusive_creation_whose_answer_was_lost_counts_as_ours(behind: S3Store, proxy: FaultyS3) -> None:
    proxy.spoil_first(1, Spoiled(status=500, lost=True), method="PUT")
    assert behind.put_if_absent("a", b"mine")
    assert behind.read("a") == b"mine"
    assert not behind.put_if_absent("a", b"theirs")


def test_writers_that_get_in_between_are_waited_for(behind: S3Store, proxy: FaultyS3) -> None:
    proxy.spoil_first(2, Spoiled(status=409), method="PUT")
    assert behind.put_if_absent("a", b"mine")
    assert behind.read("a") == b"mine"


def test_a_server_that_is_gone_is_transient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    settings = S3Settings(endpoint_url="http://127.0.0.1:9", addressing="path", max_attempts=1)
    with pytest.raises(StoreUnavailable, match="no valid response") as caught:
        S3Store("s3://bucket", settings).read("a")
    assert caught.value.transient


def test_a_server_keeps_a_checksum_of_what_was_uploaded_in_one_part_or_in_several(
    s3_server: S3Server, tmp_path: Path
) -> None:
    settings = s3_server.settings.model_copy(update={"part_bytes": 5 * 2**20})
    store = S3Store(f"s3://{s3_server.new_bucket()}/some", settings)
    store.put("one", b"123456789")
    file = tmp_path / "large"
    file.write_bytes(bytes(6 * 2**20))
    whole = Crc64Nvme()
    whole.update(file.read_bytes())
    store.adopt(file, "parts")
    assert store.checksum("one") == "crc64nvme:ae8b14860a799888"
    assert store.checksum("parts") == f"crc64nvme:{whole.hexdigest()}"


def test_a_checksum_is_of_the_version_asked_for(s3_store: S3Store) -> None:
    s3_store.put("a", b"old")
    stat = s3_store.stat("a")
    assert stat is not None
    s3_store.put("a", b"new")
    with pytest.raises(ObjectChanged):
        s3_store.checksum("a", version=stat.version)
    with pytest.raises(ObjectMissing):
        s3_store.checksum("b")


ETAG = "25f9e794323b453885f5181f1b624d0b"


@pytest.mark.parametrize(
    ("answer", "digest"),
    [
        ({"ETag": f'"{ETAG}"'}, f"md5:{ETAG}"),
        ({"ETag": f'"{ETAG}"', "ServerSideEncryption": "AES256"}, f"md5:{ETAG}"),
        ({"ETag": f'"{ETAG}"', "ServerSideEncryption": "aws:kms"}, ""),
        ({"ETag": f'"{ETAG}"', "SSECustomerAlgorithm": "AES256"}, ""),
        ({"ETag": f'"{ETAG}-2"'}, ""),
        ({"ETag": f'"{ETAG}-2"', "ChecksumCRC64NVME": "rosUhgp5mIg="}, "crc64nvme:ae8b14860a799888"),
        (
            {"ETag": "x", "ChecksumCRC64NVME": "rosUhgp5mIg=", "ChecksumType": "FULL_OBJECT"},
            "crc64nvme:ae8b14860a799888",
        ),
        ({"ETag": "x", "ChecksumSHA256": "AAAA-2", "ChecksumType": "COMPOSITE"}, ""),
        ({"ETag": "x", "ChecksumSHA256": "AAAA-2"}, ""),
        ({"ETag": "x", "ChecksumSHA256": "AAAA", "ChecksumCRC64NVME": "rosUhgp5mIg="}, "000000"),
    ],
)
def test_the_best_digest_of_the_whole_object_counts(answer: dict[str, str], digest: str) -> None:
    assert checksum_of(answer) == digest
