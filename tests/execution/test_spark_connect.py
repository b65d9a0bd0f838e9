"""Spark Connect runs tasks and shuffles as classic Spark does; there is no JVM in this process for it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.functions import spark_partition_id

from spark_jobs.execution.options import SESSION_OPTIONS, SparkFailed
from spark_jobs.execution.spark import Spark
from spark_jobs.kafka.errors import BadCrc
from spark_jobs.lake.errors import StoreUnavailable
from tests.connect_server import running_connect_server
from tests.execution.sample_lake import SHUFFLES, Scheduled, sample_lake, schedule_everything
from tests.execution.test_shuffle import plain, shuffle_words
from tests.in_process import InProcess
from tests.reading.spark_reads import check_session
from tests.sample.log_directory import write_sample as write_log


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduled]:
    with running_connect_server(tmp_path_factory.mktemp("connect")) as address:
        spark = Scheduled(address)
        yield spark
        spark.stop()


def _double(number: int) -> int:
    return 2 * number


def _take_a_while(_: int) -> None:
    time.sleep(0.3)


def _fail_for_good(number: int) -> int:
    raise BadCrc(source="a.log", position=number, expected="0x1", found="0x2")


def _fail_for_now(_: int) -> int:
    raise StoreUnavailable("s3://bucket/key: no answer")


def test_results_come_in_the_order_of_the_tasks(remote: Spark) -> None:
    assert remote.run_tasks(_double, list(range(20))) == list(range(0, 40, 2))


def test_the_servers_slots_are_known(remote: Spark) -> None:
    assert remote.parallelism == 2


def test_errors_are_those_of_classic_spark(remote: Spark) -> None:
    with pytest.raises(BadCrc) as raised:
        remote.run_tasks(_fail_for_good, [7])
    assert (raised.value.source, raised.value.position) == ("a.log", 7)
    with pytest.raises(SparkFailed, match=r"StoreUnavailable: s3://bucket/key: no answer"):
        remote.run_tasks(_fail_for_now, [1])


def test_an_interrupted_job_is_cancelled(remote: Spark) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        remote.run_tasks(_take_a_while, list(range(1000)), watch=interrupt)

    assert remote.run_tasks(_double, [4]) == [8]


def test_progress_is_reported(remote: Spark) -> None:
    seen: list[int] = []

    remote.run_tasks(_take_a_while, list(range(40)), watch=seen.append)

    assert max(seen) > 0


def test_a_shuffle_gives_the_same(remote: Spark) -> None:
    words, numbers = [["", "ab", "aab"], ["b"]], [[], [3, 50, 55]]

    assert plain(shuffle_words(remote, words, numbers)) == plain(shuffle_words(InProcess(), words, numbers))


def test_a_server_that_refuses_options_gets_one_partition_per_task_all_the_same(
    remote: Scheduled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a serverless one does, which also hides its executors."""
    set_option, get_option = RuntimeConf.set, RuntimeConf.get

    def refuse_ours(conf: RuntimeConf, key: str, value: str) -> None:
        if key in SESSION_OPTIONS:
            raise PySparkException(f"[CONFIG_NOT_AVAILABLE] {key}")
        set_option(conf, key, value)

    def hide(conf: RuntimeConf, key: str, default: Any = None) -> str | None:
        if key.startswith("spark.dynamicAllocation"):
            raise PySparkException(f"[CONFIG_NOT_AVAILABLE] {key}")
        return get_option(conf, key, default)

    monkeypatch.setattr(RuntimeConf, "set", refuse_ours)
    monkeypatch.setattr(RuntimeConf, "get", hide)
    refused = Spark(remote.master)
    tasks = list(range(20))

    assert refused.run_tasks(_double, tasks) == list(range(0, 40, 2))
    assert refused.parallelism == 2
    words, numbers = [["", "ab", "aab"], ["b"]], [[], [3, 50, 55]]
    assert plain(shuffle_words(refused, words, numbers)) == plain(shuffle_words(InProcess(), words, numbers))
    parts = refused._task_frame(tasks).select(spark_partition_id().alias("part")).distinct()
    assert parts.count() == len(tasks)
    refused.stop()


def test_both_runs_of_the_sample_yield_the_same_lake(
    remote: Scheduled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server runs all of it: thresholds below which work runs in the driver are lowered."""
    schedule_everything(monkeypatch)
    remote.scheduled.clear()
    remote.in_driver.clear()

    assert sample_lake(tmp_path / "connect", remote) == sample_lake(tmp_path / "in_process", InProcess())
    assert remote.in_driver == set()
    assert {"fetch_objects", "survey_partitions", *SHUFFLES} <= remote.scheduled


def test_the_data_source_reads_a_log(remote: Spark, tmp_path: Path) -> None:
    write_log(tmp_path)
    check_session(remote.session, tmp_path)


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(SparkFailed, match=r"no Spark Connect server at 127\.0\.0\.1 port 1:"):
        Spark("sc://127.0.0.1:1").run_tasks(_double, [1])
