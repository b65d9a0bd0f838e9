import pytest

from spark_jobs.materialising import record_leaves


@pytest.fixture(params=[1, record_leaves.LARGE_BYTES], ids=["short way", "by a table"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways of records to their file, between which the size of a piece decides."""
    monkeypatch.setattr(record_leaves, "LARGE_BYTES", request.param)
