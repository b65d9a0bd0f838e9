"""Cluster ids: all copies of a source are of one cluster, in one run and over runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.kafka.formats.checkpoints import read_cluster_id
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import OtherCluster
from spark_jobs.lake.layout import STAGING
from spark_jobs.lake.stores import open_source
from tests.pipeline.runs import BROKER_LOG, Place, place_at
from tests.s3_server import S3Server

ONE, OTHER = "5L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qg"
SEGMENT = "00000000000000000000.log"


def meta(cluster_id: str, node: int = 1) -> bytes:
    """As a KRaft broker writes it."""
    return f"#\n#Mon Nov 16 00:42:35 UTC 2026\ncluster.id={cluster_id}\nversion=1\nnode.id={node}\n".encode()


@pytest.fixture
def logs(tmp_path: Path) -> Place:
    place = place_at(tmp_path, BROKER_LOG)
    place.arrive(f"one/orders-0/{SEGMENT}", b"x")
    place.arrive("one/meta.properties", meta(ONE))
    return place


def ids(place: Place, number: int) -> dict[str, str]:
    return {entry.path: entry.cluster_id for entry in place.finish(number).entries if entry.cluster_id}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (meta(ONE), ONE),
        (b"version=0\r\nbroker.id=0\r\ncluster.id=" + ONE.encode() + b"\r\n", ONE),
        (b"cluster.id = a\\=b\n", "a=b"),
        (b"#cluster.id=x\nversion=0\n", ""),
        (b"", ""),
        (b"\xff\x00", ""),
    ],
)
def test_reading(data: bytes, found: str) -> None:
    assert read_cluster_id(data) == found


def test_brokers_of_one_cluster_go_together(logs: Place) -> None:
    logs.arrive(f"two/orders-0/{SEGMENT}", b"x")
    logs.arrive("two/meta.properties", meta(ONE, node=2))
    assert ids(logs, 1) == {"one/meta.properties": ONE, "two/meta.properties": ONE}
    logs.arrive("one/meta.properties", meta(ONE, node=3))
    assert set(ids(logs, 2).values()) == {ONE}


def test_the_id_is_no_part_of_the_digest(logs: Place) -> None:
    manifest = logs.stage(1)
    without = tuple(replace(entry, cluster_id="") for entry in manifest.entries)
    assert without != manifest.entries
    assert replace(manifest, entries=without).digest == manifest.digest


def test_another_cluster_in_a_later_copy_stops_the_run(logs: Place) -> None:
    logs.finish(1)
    logs.arrive("one/meta.properties", meta(OTHER))
    with pytest.raises(OtherCluster) as stopped:
        logs.stage(2)
    assert str(stopped.value).startswith(
        f"source gateway: expected the cluster id {ONE} of gateway/one/meta.properties, "
        f"found the cluster id {OTHER} of gateway/one/meta.properties."
    )
    assert len(read_chain(logs.lake).entries) == 1
    assert not [each for each in logs.lake.list(STAGING) if "manifest" in each.key and "-02" in each.key]

    logs.arrive("one/meta.properties", meta(ONE))
    logs.finish(2)


def test_copies_of_two_clusters_in_one_run_stop_it(logs: Place) -> None:
    logs.arrive(f"two/clicks-0/{SEGMENT}", b"y")
    logs.arrive("two/meta.properties", meta(OTHER))
    with pytest.raises(OtherCluster):
        logs.stage(1)


def test_unknown_is_no_conflict(logs: Place) -> None:
    logs.finish(1)
    logs.arrive("one/meta.properties", b"version=0\n")
    assert ids(logs, 2) == {}
    logs.arrive("one/meta.properties", meta(OTHER))
    with pytest.raises(OtherCluster):
        logs.stage(3)


@pytest.mark.parametrize("is_immutable", [True, False], ids=["immutable", "copied"])
def test_another_cluster_in_a_bucket_stops_the_run(
    s3_server: S3Server, tmp_path: Path, *, is_immutable: bool
) -> None:
    """An object that the store's checksum identifies has no SHA-256; its cluster id is read all the same."""
    root = f"s3://{s3_server.new_bucket()}/logs"
    config = f"""
lake: lake
s3: {{endpoint_url: "{s3_server.endpoint_url}", addressing: path}}
sources:
  - {{name: gateway, kind: broker-log, root: "{root}", immutable: {str(is_immutable).lower()}}}
"""
    place = place_at(tmp_path, config)
    bucket = open_source(place.settings, place.settings.sources[0])
    bucket.put(f"one/orders-0/{SEGMENT}", b"x")
    bucket.put("one/meta.properties", meta(ONE))
    assert [bool(entry.sha256) for entry in place.finish(1).entries] == [not is_immutable] * 2

    bucket.put("one/meta.properties", meta(OTHER))
    with pytest.raises(OtherCluster):
        place.stage(2)
