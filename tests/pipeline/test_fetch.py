"""Sources can be fetched one by one ahead of `stage`: the manifest is the same, and nothing is read twice."""

from pathlib import Path

import pytest

from spark_jobs.config.load import InvalidConfig
from spark_jobs.execution.spark import Spark
from spark_jobs.lake.errors import OutOfTurn
from spark_jobs.lake.layout import object_key
from spark_jobs.lake.manifest import Manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.stage.worker import Fetcher, Found, ObjectToFetch
from spark_jobs.run import fetch_source
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import Place, day, place_at

TWO = """
lake: {lake}
sources:
  - {{name: east, kind: capture, root: east, dates: dt=%Y-%m-%d}}
  - {{name: west, kind: capture, root: west, dates: dt=%Y-%m-%d}}
"""


def _run(directory: Path, lake: str = "lake") -> Place:
    for source, batches in (("east", 3), ("west", 5)):
        folder = directory / source / "dt=2024-05-01" / "orders-0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{source}.batches").write_bytes(plain_object(batches))
    return place_at(directory, TWO.format(lake=lake))


def _staged(place: Place) -> Manifest:
    return place.stage(1)


def test_the_manifest_is_that_of_a_run_staged_at_once(tmp_path: Path) -> None:
    at_once, one_by_one = _run(tmp_path, "whole"), _run(tmp_path)

    for source in ("west", "east"):
        fetch_source(one_by_one.settings, day(1), source)

    assert _staged(one_by_one) == _staged(at_once)


def test_a_path_lake_is_refused_for_executors_on_other_machines(tmp_path: Path) -> None:
    place = _run(tmp_path)

    with pytest.raises(InvalidConfig, match="which do not see the path of lake"):
        fetch_source(place.settings, day(1), "east", spark=Spark("spark://10.0.0.1:7077"))

    assert not Path(place.settings.lake).exists()


def test_only_the_objects_of_the_source_come_in(tmp_path: Path) -> None:
    place = _run(tmp_path)

    counts = fetch_source(place.settings, day(1), "east")

    assert counts == {"objects": 1, "bytes": len(plain_object(3)), "set_aside": 0}
    wanted = _staged(_run(tmp_path, "whole")).entries
    assert [each.source for each in wanted if place.lake.stat(object_key(each.sha256))] == ["east"]


def test_what_was_fetched_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _run(tmp_path)
    read: list[str] = []
    really_read = Fetcher._read

    def note_and_read(self: Fetcher, wanted: ObjectToFetch, origin: ObjectStore) -> Found:
        read.append(wanted.placed.source.name)
        return really_read(self, wanted, origin)

    monkeypatch.setattr(Fetcher, "_read", note_and_read)

    for source in ("east", "west", "east"):
        fetch_source(place.settings, day(1), source)
    _staged(place)

    assert read == ["east", "west"]


def test_an_object_that_changed_after_it_was_fetched_is_staged_as_it_is_then(tmp_path: Path) -> None:
    place = _run(tmp_path)
    fetch_source(place.settings, day(1), "east")
    (tmp_path / "east/dt=2024-05-01/orders-0/east.batches").write_bytes(plain_object(4))

    assert {entry.size for entry in _staged(place).entries} == {len(plain_object(4)), len(plain_object(5))}


def test_a_run_whose_manifest_is_fixed_has_nothing_to_fetch(tmp_path: Path) -> None:
    place = _run(tmp_path)
    manifest = _staged(place)
    (tmp_path / "east/dt=2024-05-01/orders-0/late").write_bytes(plain_object(1))

    assert fetch_source(place.settings, day(1), "east")["objects"] == 0
    assert _staged(place) == manifest


def test_a_run_that_is_not_to_run_is_not_fetched(tmp_path: Path) -> None:
    place = _run(tmp_path)
    place.finish(2)

    with pytest.raises(OutOfTurn):
        fetch_source(place.settings, day(1), "east")
