"""An update of the site writes what is new, shows failures, and needs no final run."""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.flow import Step
from spark_jobs.lake.chain import make_final, read_chain, take_back
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import EMPTY_STATE, RunInputs
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.pipeline.report.site_files import SiteFiles, from_script
from spark_jobs.pipeline.report.step import build_site
from tests.s3_server import S3Server

FIRST = date(2024, 5, 1)
COUNTS = {"batches": 7, "accepted": 5, "duplicate": 2}


class WatchedStore(FileStore):
    """A real directory that remembers what was written."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.written: list[str] = []

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        self.written.append(key)
        super().put(key, data, durable=durable)

    def shown(self, name: str) -> Any:
        return from_script(self.read(f"dashboard/data/{name}.js"))


@pytest.fixture
def lake(tmp_path: Path) -> WatchedStore:
    return WatchedStore(str(tmp_path))


def run(lake: ObjectStore, number: int, *, failed: str = "", final: bool = True) -> str:
    """A run in the ledger and the chain, without its tables."""
    chain, day = read_chain(lake), FIRST + timedelta(days=number)
    inputs = RunInputs(day=day, manifest=f"{number:064}", config="c", state_in=chain.state_before(day))
    ledger = Ledger(lake)
    ledger.started(inputs)
    ledger.step_started(inputs.run_id, Step.ADMIT)
    if failed:
        ledger.failed(inputs.run_id, failed)
        return inputs.run_id
    ledger.step_finished(inputs.run_id, Step.ADMIT, COUNTS)
    ledger.done(inputs.run_id)
    if final:
        make_final(lake, chain, inputs, state_out=f"s{number}", last_step=Step.ADMIT, outputs=inputs.run_id)
    return inputs.run_id


def build(lake: WatchedStore, **options: Any) -> int:
    lake.written.clear()
    return build_site(lake, lambda _: None, **options)


def test_a_lake_without_any_run_has_a_site_that_says_so(lake: WatchedStore) -> None:
    assert build(lake) == 0
    assert lake.shown("index")["runs"] == 0
    assert b"Overview" in lake.read("dashboard/index.html")


def test_a_failed_run_is_shown_with_its_step_and_message(lake: WatchedStore) -> None:
    run_id = run(lake, 0, failed="the bucket is gone")
    build(lake)
    [line] = lake.shown("runs/2024")
    assert (line["status"], line["step"], line["message"]) == ("failed", "admit", "the bucket is gone")
    steps = {step["step"]: step["status"] for step in lake.shown(f"run/{run_id}/run")["steps"]}
    assert steps["admit"] == "failed"
    assert steps["publish"] == "not reached"


def test_a_run_writes_its_own_files_and_leaves_those_of_other_runs_alone(lake: WatchedStore) -> None:
    earlier = [run(lake, number) for number in range(3)]
    assert build(lake) == 3
    newest = run(lake, 3)
    assert build(lake) == 1
    of_runs = {key for key in lake.written if key.startswith("dashboard/data/run/")}
    assert of_runs
    assert all(newest in key for key in of_runs)
    assert not any(run_id in key for run_id in earlier for key in lake.written)


def test_without_news_no_run_is_written_again(lake: WatchedStore) -> None:
    run(lake, 0)
    build(lake)
    assert build(lake) == 0
    assert not [key for key in lake.written if "/data/run" in key]


def test_a_run_can_be_asked_for_again(lake: WatchedStore) -> None:
    run_id = run(lake, 0)
    build(lake)
    assert build(lake, anew=run_id) == 1


def test_a_run_touches_the_series_of_its_own_month_alone(lake: WatchedStore) -> None:
    topics = [{"name": "t", "code": "a" * 16, "records": 1, "batches": 2, "verdicts": {}, "lag": 0}]
    current = [run(lake, number) for number in (0, 1, 35)]
    build(lake)
    SiteFiles(lake).put_data([(f"run/{run_id}/topics", topics) for run_id in current])
    run(lake, 36)
    build(lake)
    assert [key for key in lake.written if "/topics/" in key] == ["dashboard/data/topics/a/2024-06.js"]
    assert [row[1] for row in lake.shown("topics/a/2024-06")["a" * 16]["rows"]] == [current[2]]
    assert lake.shown("index")["months"] == {"2024-05": "", "2024-06": "a"}


def test_a_run_that_was_taken_back_is_shown_as_such(lake: WatchedStore) -> None:
    run_id = run(lake, 0)
    build(lake)
    take_back(lake, read_chain(lake), run_id)
    assert build(lake) == 1
    assert [line["status"] for line in lake.shown("runs/2024")] == ["rolled back"]


def test_a_site_of_another_version_is_written_anew(lake: WatchedStore) -> None:
    run(lake, 0)
    build(lake)
    memory = json.loads(lake.read("dashboard/data/memory.json"))
    lake.put("dashboard/data/memory.json", json.dumps({**memory, "format": -1}).encode())
    assert build(lake) == 1


def test_a_running_run_is_shown_as_interrupted_when_the_lake_is_not_locked(
    lake: WatchedStore,
) -> None:
    inputs = RunInputs(day=FIRST, manifest="m", config="c", state_in=EMPTY_STATE)
    Ledger(lake).started(inputs)
    build(lake)
    assert [line["status"] for line in lake.shown("runs/2024")] == ["interrupted"]


def test_a_lake_in_a_bucket_has_the_same_site(lake: WatchedStore, s3_server: S3Server) -> None:
    bucket = S3Store(f"s3://{s3_server.new_bucket()}/lake", s3_server.settings)
    for store in (lake, bucket):
        run(store, 0)
        build_site(store, lambda _: None)
    names = [found.key for found in bucket.list("dashboard")]
    assert names == [found.key for found in lake.list("dashboard")]
    assert bucket.read("dashboard/assets/site.js") == lake.read("dashboard/assets/site.js")
