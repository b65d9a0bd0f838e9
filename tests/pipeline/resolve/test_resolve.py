"""`resolve` as a step of a run: repeatable, in turn, and only ever one word on a run."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import OutOfTurn
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.run_folder import DONE
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.kafka.txn_cluster import PARTITIONS, Cluster
from tests.pipeline.resolve.run_lake import FIRST_DAY, RunLake
from tests.pipeline.resolve.test_resolve_cases import at_run, cluster_at, send, started

FIRST, SECOND, _ = PARTITIONS


def busy_cluster() -> Cluster:
    cluster = cluster_at(0)
    producers = [started(cluster, name) for name in "abc"]
    for turn in range(12):
        producer = producers[turn % 3]
        send(cluster, producer, PARTITIONS[turn % 3], PARTITIONS[turn % 2])
        if turn % 4:
            cluster.end(producer, TransactionResult.COMMIT if turn % 3 else TransactionResult.ABORT)
    return cluster


def contents(lake: RunLake, run_id: str) -> dict[str, bytes]:
    store, folder = lake.lake, step_key(run_id, Step.RESOLVE)
    return {found.key: store.read(found.key) for found in store.list(folder)}


def test_a_run_resolved_again_is_the_same_bytes(tmp_path: Path, spark: Spark) -> None:
    lake, cluster = RunLake(tmp_path, spark=spark), busy_cluster()
    lake.copy_logs(cluster.logs, cluster.entries)
    first = lake.run(0)
    before = contents(lake, first.run_id)
    lake.lake.delete(step_key(first.run_id, Step.RESOLVE, DONE))
    lake.lake.put(step_key(first.run_id, Step.RESOLVE, "work", "left-behind.parquet"), b"half a file")

    again = lake.run(0)

    assert contents(lake, again.run_id) == before
    assert not any("/work/" in key for key in before)
    assert again.published == first.published


def test_real_workers_and_plain_calls_write_the_same_bytes(tmp_path: Path, spark: Spark) -> None:
    cluster = busy_cluster()
    lakes = RunLake(tmp_path / "spark", spark=spark), RunLake(tmp_path / "here")
    for lake in lakes:
        lake.copy_logs(cluster.logs, cluster.entries)
        lake.run(0)
    at_run(cluster, 1)
    send(cluster, started(cluster, "d"), FIRST, SECOND)
    written = []
    for lake in lakes:
        lake.copy_logs(cluster.logs, cluster.entries)
        found = contents(lake, lake.run(1).run_id)
        written.append({key: data for key, data in found.items() if not key.endswith(DONE)})
    assert written[0] == written[1]


def test_nothing_can_be_resolved_after_a_run_that_was_not(tmp_path: Path) -> None:
    lake, cluster = RunLake(tmp_path), busy_cluster()
    lake.copy_logs(cluster.logs, cluster.entries)
    progress = RunProgress(Console(file=StringIO()))
    execute_run(lake.settings, FIRST_DAY, until=Step.ADMIT, spark=lake.spark, progress=progress)

    with pytest.raises(OutOfTurn, match="run 2024-05-01 until resolve first"):
        lake.run(1)

    assert [entry.last_step for entry in read_chain(lake.lake).entries] == [Step.ADMIT]


def test_a_run_can_be_resolved_after_it_was_admitted(tmp_path: Path) -> None:
    lake, cluster = RunLake(tmp_path), busy_cluster()
    lake.copy_logs(cluster.logs, cluster.entries)
    progress = RunProgress(Console(file=StringIO()))
    execute_run(lake.settings, FIRST_DAY, until=Step.ADMIT, spark=lake.spark, progress=progress)
    assert lake.run(0).published
    at_run(cluster, 1)
    assert lake.run(1).published == ()
    assert read_chain(lake.lake).run_of(FIRST_DAY + timedelta(days=1)) is not None


def test_an_empty_run_is_resolved_too(tmp_path: Path) -> None:
    lake = RunLake(tmp_path)
    Path(lake.settings.sources[0].root).mkdir()
    found = lake.run(0)
    assert (found.partitions, found.transactions, found.published) == ({}, [], ())
