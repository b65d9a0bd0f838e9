"""`stage` by Spark tasks: the same manifest and the same copies as by the driver alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.spark import Spark, Watch
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import StoreDenied, StoreFull
from spark_jobs.lake.layout import staging_key
from spark_jobs.lake.manifest import Manifest, SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_source
from spark_jobs.pipeline.stage import fetch, worker
from spark_jobs.pipeline.stage.step import stage
from spark_jobs.sources.listing import list_sources
from tests.pipeline.runs import BROKER_LOG, CAPTURE, Place, day, place_at
from tests.s3_server import S3Server

OBJECTS = 12
SIZE = 50_000


@dataclass(frozen=True)
class CountingSpark(Spark):
    """The shared session, which notes how many tasks each job had."""

    shared: Spark = field(default_factory=Spark)
    jobs: list[int] = field(default_factory=list)

    @property
    def parallelism(self) -> int:
        return self.shared.parallelism

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = lambda _: None,
        **_: object,
    ) -> list[Summary]:
        self.jobs.append(len(tasks))
        return self.shared.run_tasks(function, tasks, watch=watch)


@pytest.fixture
def small_tasks(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> CountingSpark:
    """Nothing is too small for a task of its own."""
    monkeypatch.setattr(worker, "OBJECT_COST", 1)
    for name in ("IN_DRIVER_COST", "SMALLEST_TASK"):
        monkeypatch.setattr(fetch, name, 1)
    monkeypatch.setattr(fetch, "LARGEST_TASK", 2 * SIZE)
    return CountingSpark(shared=spark)


def _arrive(place: Place) -> None:
    for number in range(OBJECTS):
        place.arrive(f"dt=2024-05-01/orders-{number % 3}/{number:03d}", bytes([number]) * SIZE)


def _stage(place: Place, number: int, spark: Spark) -> Manifest:
    return stage(place.settings, day(number), lake=place.lake, chain=read_chain(place.lake), spark=spark)


def _copies(place: Place) -> dict[str, bytes]:
    return {found.key: place.lake.read(found.key) for found in place.lake.list("objects")}


def test_tasks_bring_in_what_the_driver_brings_in(tmp_path: Path, small_tasks: CountingSpark) -> None:
    by_tasks, by_driver = (
        place_at(tmp_path, CAPTURE.replace("lake: lake", f"lake: {name}")) for name in ("tasks", "driver")
    )
    _arrive(by_tasks)
    assert _stage(by_tasks, 1, small_tasks) == by_driver.stage(1)
    assert _copies(by_tasks) == _copies(by_driver)
    assert len(_copies(by_tasks)) == OBJECTS
    assert small_tasks.jobs == [OBJECTS]
    assert list(by_tasks.lake.list(staging_key(day(1), "read"))) == []


def test_an_object_that_vanished_is_set_aside_by_its_task(tmp_path: Path, small_tasks: CountingSpark) -> None:
    place = place_at(tmp_path)
    _arrive(place)
    listed = list_sources(place.settings, day(1)).placed
    Path(place.settings.sources[0].root, listed[0].path).unlink()
    found = fetch.fetch_all(
        [worker.ObjectToFetch(placed=each) for each in listed],
        place.settings,
        day(1),
        lake=place.lake,
        spark=small_tasks,
    )
    problems = [each for each in found if isinstance(each, StageProblem)]
    assert [(each.path, each.reason) for each in problems] == [(listed[0].path, SetAside.VANISHED)]
    assert len(found) == OBJECTS


def test_a_staging_that_ended_among_its_tasks_reads_only_the_rest(
    tmp_path: Path, small_tasks: CountingSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies when its tasks are done and nothing is fixed yet."""
    place = place_at(tmp_path)
    _arrive(place)

    def die(*_: object) -> Manifest:
        raise StoreFull("killed here")

    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.pipeline.stage.step.build_manifest", die)
        with pytest.raises(StoreFull):
            _stage(place, 1, small_tasks)
    read: list[str] = []
    whole = worker.Fetcher._read

    def note(self: worker.Fetcher, wanted: worker.ObjectToFetch, origin: ObjectStore) -> worker.Found:
        read.append(wanted.placed.name)
        return whole(self, wanted, origin)

    place.arrive("dt=2024-05-01/orders-0/new", b"new" * SIZE)
    with monkeypatch.context() as patched:
        patched.setattr(worker.Fetcher, "_read", note)
        manifest = place.stage(1)
    assert read == ["new"]
    assert len(manifest.entries) == OBJECTS + 1


def test_segments_that_grew_are_compared_by_tasks(tmp_path: Path, small_tasks: CountingSpark) -> None:
    """The digest of a prefix comes back from the task that copies the segment."""
    place = place_at(tmp_path, BROKER_LOG)
    segment = "orders-0/00000000000000000000.log"
    place.arrive(segment, b"a" * SIZE)
    place.finish(1)
    place.arrive(segment, b"a" * SIZE + b"b" * SIZE)
    place.arrive("orders-1/00000000000000000000.log", b"c" * SIZE)
    by_tasks = _stage(place, 2, small_tasks)
    assert place.stage(2, restage=True) == by_tasks
    assert small_tasks.jobs == [2]


@pytest.fixture
def without_rights(small_tasks: CountingSpark, s3_server: S3Server) -> Iterator[CountingSpark]:
    """Workers whose credentials the store does not know."""
    environment = small_tasks.shared.session.sparkContext.environment
    environment.update(dict.fromkeys(s3_server.environment, "wrong"))
    yield small_tasks
    for name in s3_server.environment:
        del environment[name]


def test_executors_without_rights_stop_the_run_instead_of_emptying_it(
    tmp_path: Path, s3_server: S3Server, without_rights: CountingSpark
) -> None:
    place = place_at(
        tmp_path,
        CAPTURE.replace("root: capture", f"root: s3://{s3_server.new_bucket()}/in")
        + f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}\n",
    )
    open_source(place.settings, place.settings.sources[0]).put("dt=2024-05-01/orders-0/a", b"x" * SIZE)
    with pytest.raises(StoreDenied, match="give Spark's executors the same credentials"):
        _stage(place, 1, without_rights)
    assert len(place.stage(1).entries) == 1
