"""A fetch from a broker that throttles: nothing is lost, and nothing is sent within a pause."""

from datetime import date
from pathlib import Path

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.cluster import brokers, fetching
from spark_jobs.sources.cluster.cut import UNKNOWN, PartitionFetched, QuotaExceeded
from spark_jobs.sources.cluster.fetching import ClusterFetchTask, fetch_partitions
from tests.sources.quotas import QuotaBroker, note_requests
from tests.sources.test_cluster_cuts import cut_of

PARTITIONS, BATCHES, REPLY_BYTES = 16, 150, 1024
DAY = date(2026, 3, 1)


@pytest.mark.parametrize(("long_pause_ms", "together"), [(0, 1), (1000, fetching.CONCURRENT)])
def test_a_throttled_fetch_continues_on_its_connection_after_the_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_pause_ms: int, together: int
) -> None:
    monkeypatch.setattr(fetching, "TRIES", 1)
    monkeypatch.setattr(brokers, "LONG_PAUSE_MS", long_pause_ms)
    noted = note_requests(monkeypatch)
    with QuotaBroker(PARTITIONS, BATCHES, bytes_per_second=100_000, window=0.05) as broker:
        found, lake = fetch(broker, tmp_path)
    expect_whole(broker, found, lake)
    assert broker.throttled > PARTITIONS
    assert broker.connections == 1
    assert noted.within_pauses() == []
    assert max(noted.fetching[len(noted.fetching) // 2 :]) == together


def test_a_connection_that_ends_within_a_pause_is_opened_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = note_requests(monkeypatch)
    with QuotaBroker(1, BATCHES, bytes_per_second=10_000, window=0.05, hangs_up=True) as broker:
        found, lake = fetch(broker, tmp_path)
    expect_whole(broker, found, lake)
    assert broker.connections > 1
    assert noted.within_pauses() == []


def test_a_broker_that_throttles_every_fetch_is_an_error_that_names_the_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "THROTTLED_SECONDS", 0.2)
    with (
        QuotaBroker(2, BATCHES, bytes_per_second=1, window=0.01, hangs_up=True) as broker,
        pytest.raises(QuotaExceeded, match="consumer_byte_rate of client id onceover") as error,
    ):
        fetch(broker, tmp_path)
    assert error.value.transient


def fetch(broker: QuotaBroker, place: Path) -> tuple[tuple[PartitionFetched, ...], ObjectStore]:
    """All partitions of the broker, in one task."""
    source = {"name": "live", "kind": "cluster", "bootstrap": f"127.0.0.1:{broker.port}"}
    source |= {"max_partition_fetch_bytes": str(REPLY_BYTES)}
    settings = Settings.model_validate({"lake": str(place / "lake"), "sources": [source]})
    lake = open_lake(settings)
    cuts = tuple(
        cut_of(partition=number, start=0, end=2 * broker.batches, log_start_offset=0, leader_epoch=UNKNOWN)
        for number in range(broker.partitions)
    )
    task = ClusterFetchTask(source=settings.source("live"), lake=lake, day=DAY, cuts=cuts, cluster_id="abc")
    return fetch_partitions(task), lake


def expect_whole(broker: QuotaBroker, found: tuple[PartitionFetched, ...], lake: ObjectStore) -> None:
    """Every partition is fetched, byte for byte."""
    assert [each.partition for each in found] == list(range(broker.partitions))
    for each in found:
        folder = f"sources/live/{DAY}/{each.topic}-{each.partition}"
        data = b"".join(lake.read(f"{folder}/{name}") for name in each.segments)
        assert data == b"".join(broker.log)
