"""`stage` from and to a real S3 server, also when it answers badly."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.kernels.crc import Crc64Nvme
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.checksums import algorithm_of, labelled, new_hasher
from spark_jobs.lake.errors import StoreUnavailable
from spark_jobs.lake.manifest import Manifest, SetAside, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake, open_source
from spark_jobs.pipeline.stage.fetch import fetch_all
from spark_jobs.pipeline.stage.step import open_run, stage
from spark_jobs.pipeline.stage.worker import ObjectToFetch
from spark_jobs.sources.listing import list_sources
from spark_jobs.sources.taken import Fetched, Taken, build_manifest, new_content, taken_by
from tests.faulty_s3 import FaultyS3, Spoiled, faulty_s3
from tests.pipeline.runs import place_at
from tests.s3_server import S3Server

DAY = date(2024, 5, 1)
OBJECTS = {
    "dt=2024-05-01/orders-0/0001": b"first",
    "dt=2024-05-01/orders-0/0002": bytes(6 * 2**20),
    "dt=2024-05-01/gw/orders-1/Заказ 注文": b"other alphabets",
    f"dt=2024-05-01/{'long/' * 150}orders-2/{'n' * 200}": b"a name of almost a thousand characters",
}
VICTIM = "dt=2024-05-01/orders-0/0001"


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def settings(s3_server: S3Server, proxy: FaultyS3) -> Settings:
    """A source and a lake in two buckets, reached through the proxy."""
    text = f"""
lake: s3://{s3_server.new_bucket()}/lake
s3: {{endpoint_url: "{proxy.endpoint_url}", addressing: path, max_attempts: 2, part_bytes: 5MiB}}
sources:
  - {{name: gateway, kind: capture, root: "s3://{s3_server.new_bucket()}/in", dates: dt=%Y-%m-%d}}
"""
    settings = parse_settings(text, name="test.yaml", base=Path())
    for key, data in OBJECTS.items():
        _source(settings).put(key, data)
    return settings


def test_a_run_on_s3_is_the_same_as_on_files(settings: Settings, tmp_path: Path) -> None:
    files = place_at(tmp_path)
    for key, data in OBJECTS.items():
        files.arrive(key, data)
    manifest, staged = _stage(settings), StagedObjects(settings)
    assert manifest.digest == files.stage(1).digest
    assert {entry.path: staged.read(entry) for entry in manifest.entries} == OBJECTS
    lake = open_lake(settings)
    run = open_run(settings, manifest, lake=lake, chain=read_chain(lake))
    assert (
        run.run_id
        == open_run(files.settings, files.stage(1), lake=files.lake, chain=read_chain(files.lake)).run_id
    )


def test_staging_again_gives_the_same_manifest(settings: Settings) -> None:
    first = _stage(settings)
    _source(settings).put("dt=2024-05-01/orders-0/0003", b"late")
    assert _stage(settings) == first


def test_referenced_objects_stay_in_their_bucket(immutable: Settings) -> None:
    manifest = _stage(immutable)
    assert list(open_lake(immutable).list("objects")) == []
    staged = StagedObjects(immutable)
    assert {entry.path: staged.read(entry) for entry in manifest.entries} == OBJECTS


@pytest.fixture
def immutable(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"sources": (settings.sources[0].model_copy(update={"immutable": True}),)}
    )


def test_an_immutable_bucket_with_checksums_is_not_read(immutable: Settings, proxy: FaultyS3) -> None:
    read: list[str] = []
    proxy.spoil(lambda method, path: read.append(path) if method == "GET" and "orders-" in path else None)
    manifest = _stage(immutable)
    by_path = {entry.path: (entry.sha256, entry.checksum) for entry in manifest.entries}
    assert read == []
    assert by_path == {path: ("", f"crc64nvme:{_crc64(data)}") for path, data in OBJECTS.items()}


def test_an_object_of_an_immutable_bucket_that_is_gone_when_asked_for_is_set_aside(
    immutable: Settings, proxy: FaultyS3
) -> None:
    source = _source(immutable)

    def vanish(method: str, path: str) -> None:
        if method == "HEAD" and path.endswith("orders-0/0001"):
            source.delete(VICTIM)

    proxy.spoil(vanish)
    manifest = _stage(immutable)
    assert [(problem.path, problem.reason) for problem in manifest.problems] == [(VICTIM, SetAside.VANISHED)]


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "crc64nvme"])
@pytest.mark.parametrize("is_immutable", [True, False], ids=["immutable", "copied"])
def test_bytes_that_earlier_runs_know_by_any_digest_are_not_new(
    settings: Settings, *, algorithm: str, is_immutable: bool
) -> None:
    """Digests of another algorithm are compared by reading: the object is not taken twice."""
    source = settings.sources[0].model_copy(update={"immutable": is_immutable})
    changed = settings.model_copy(update={"sources": (source,)})
    listed = list_sources(changed, DAY).placed
    hasher = new_hasher(algorithm)
    hasher.update(OBJECTS[VICTIM])
    (victim,) = (each for each in listed if each.path == VICTIM)
    earlier = Fetched(placed=victim, digest=labelled(algorithm, hasher.hexdigest()))
    taken = taken_by([build_manifest(DAY, [earlier], (), Taken())])
    wanted = [
        ObjectToFetch(
            placed=each, algorithms=frozenset(map(algorithm_of, taken.contents.get(each.where, ())))
        )
        for each in listed
    ]
    fetched = fetch_all(wanted, changed, DAY, lake=open_lake(changed), spark=None)
    new = new_content((each for each in fetched if isinstance(each, Fetched)), taken)
    assert {each.placed.path for each in new} == OBJECTS.keys() - {VICTIM}


def test_an_object_replaced_after_it_was_listed_is_set_aside(settings: Settings, proxy: FaultyS3) -> None:
    source, pending = _source(settings), [VICTIM]

    def replace_first(method: str, path: str) -> None:
        if method == "GET" and path.endswith("orders-0/0001") and pending:
            source.put(pending.pop(), b"replaced")

    proxy.spoil(replace_first)
    (problem,) = _stage(settings).problems
    assert (problem.path, problem.reason) == (VICTIM, SetAside.CHANGED)
    assert "its ETag differs" in problem.detail


def test_an_object_replaced_between_two_of_its_parts_is_set_aside(
    settings: Settings, proxy: FaultyS3
) -> None:
    source, parts = _source(settings), []

    def replace_second(method: str, path: str) -> None:
        if method == "GET" and path.endswith("orders-0/0002"):
            parts.append(path)
            if len(parts) == 2:
                source.put("dt=2024-05-01/orders-0/0002", b"x" * 6 * 2**20)

    proxy.spoil(replace_second)
    (problem,) = _stage(settings).problems
    assert problem.reason is SetAside.CHANGED


def test_an_object_that_vanishes_is_set_aside(settings: Settings, proxy: FaultyS3) -> None:
    source = _source(settings)

    def vanish(method: str, path: str) -> None:
        if method == "GET" and path.endswith("orders-0/0001"):
            source.delete(VICTIM)

    proxy.spoil(vanish)
    manifest = _stage(settings)
    assert [(problem.path, problem.reason) for problem in manifest.problems] == [(VICTIM, SetAside.VANISHED)]
    assert len(manifest.entries) == len(OBJECTS) - 1


@pytest.mark.parametrize(
    "spoiled",
    [Spoiled(status=500), Spoiled(status=503), Spoiled(body_bytes=2)],
    ids=["500", "503", "torn body"],
)
def test_a_server_that_fails_stops_the_run_and_the_next_attempt_is_as_if_nothing_had_been(
    settings: Settings, proxy: FaultyS3, tmp_path: Path, spoiled: Spoiled
) -> None:
    """A run without one of its objects would be another run: better none than that."""
    proxy.spoil(lambda method, path: spoiled if path.endswith("orders-0/0001") else None)
    with pytest.raises(StoreUnavailable):
        _stage(settings)
    proxy.spoil(lambda method, path: None)
    undisturbed = place_at(tmp_path)
    for key, data in OBJECTS.items():
        undisturbed.arrive(key, data)
    assert _stage(settings).digest == undisturbed.stage(1).digest


def test_hostile_keys_in_a_bucket_are_set_aside(settings: Settings, s3_server: S3Server) -> None:
    bucket = settings.sources[0].root.removeprefix("s3://").partition("/")[0]
    directory = s3_server.files / bucket / "in" / "dt=2024-05-01" / "orders-0"
    (directory / "evil\nname").write_bytes(b"x")
    manifest = _stage(settings)
    assert [(problem.path.rpartition("/")[2], problem.reason) for problem in manifest.problems] == [
        ("evil\nname", SetAside.UNSAFE_NAME)
    ]
    assert len(manifest.entries) == len(OBJECTS)


def _crc64(data: bytes) -> str:
    crc = Crc64Nvme()
    crc.update(data)
    return crc.hexdigest()


def _source(settings: Settings) -> ObjectStore:
    return open_source(settings, settings.sources[0])


def _stage(settings: Settings) -> Manifest:
    lake = open_lake(settings)
    return stage(settings, DAY, lake=lake, chain=read_chain(lake))
