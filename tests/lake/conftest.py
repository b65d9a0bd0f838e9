from pathlib import Path

import pytest

from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.s3_store import S3Store
from tests.s3_server import S3Server


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "lake"))


@pytest.fixture
def s3_store(s3_server: S3Server) -> S3Store:
    return S3Store(f"s3://{s3_server.new_bucket()}/some/prefix", s3_server.settings)


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """Every kind of store, held to the same promises."""
    found: ObjectStore = request.getfixturevalue("lake" if request.param == "file" else "s3_store")
    return found
