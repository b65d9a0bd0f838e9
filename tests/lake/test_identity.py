"""A lake has one identity, however many make it at a time, and another place is noticed in every store."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import Damaged, LakeMoved
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.identity import locked_lake, open_at_home, read_identity, record_identity, same_location
from spark_jobs.lake.layout import LAKE_FILE
from spark_jobs.lake.stores import open_lake
from tests.s3_server import S3Server

CONFIG = "lake: '{lake}'\nsources: [{{name: a, kind: capture, root: elsewhere}}]\n"


def _settings(lake: str, place: Path, more: str = "") -> Settings:
    return parse_settings(CONFIG.format(lake=lake) + more, name="test.yaml", base=place)


def test_of_many_that_make_a_lake_at_a_time_one_names_it(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path))
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: record_identity(lake), range(64)))
        found = set(threads.map(lambda _: read_identity(lake), range(64)))
    assert len(found) == 1
    (identity,) = found
    assert identity is not None
    assert identity.location == str(tmp_path)
    record_identity(lake)
    assert read_identity(lake) == identity


def test_who_only_looks_writes_nothing(tmp_path: Path) -> None:
    open_at_home(_settings("lake", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_lake_on_s3_knows_its_prefix(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.new_bucket()
    more = f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}\n"
    settings = _settings(f"s3://{bucket}/lake", tmp_path, more)
    with locked_lake(settings, purpose="test"):
        pass
    assert open_at_home(_settings(f"s3://{bucket}/lake/", tmp_path, more)) is open_lake(settings)
    copy = _settings(f"s3://{bucket}/copy", tmp_path, more)
    open_lake(copy).put(LAKE_FILE, open_lake(settings).read(LAKE_FILE))
    with (
        pytest.raises(LakeMoved, match=f"made at s3://{bucket}/lake and is a copy"),
        locked_lake(copy, purpose="test"),
    ):
        pass
    assert [found.key for found in open_lake(copy).list()] == [LAKE_FILE]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":2}', b'{"format":1,"lake_id":"a"}'])
def test_a_damaged_identity_is_said(tmp_path: Path, data: bytes) -> None:
    (tmp_path / LAKE_FILE).write_bytes(data)
    with pytest.raises(Damaged, match="remove it"):
        read_identity(FileStore(str(tmp_path)))


def test_locations_are_compared_as_places(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    lake = str(tmp_path / "lake")
    assert all(same_location(lake, each) for each in (f"{lake}/", f"file://{lake}", str(tmp_path / "link")))
    assert same_location("s3://bucket/lake", "s3://bucket/lake/")
    assert not same_location(lake, f"{lake}2")
    assert not same_location("s3://bucket/lake", "s3://bucket/lakes")
