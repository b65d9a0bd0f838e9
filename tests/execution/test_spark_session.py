"""Spark moves tasks in their order, starts late, and fails with the words of who failed."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_jobs.execution.classic import prepare_environment
from spark_jobs.execution.options import SparkFailed
from spark_jobs.execution.spark import Spark, first_cause
from spark_jobs.kafka.errors import BadCrc
from spark_jobs.lake.errors import StoreUnavailable


def _double(number: int) -> int:
    return 2 * number


def _take_a_while(_: int) -> None:
    time.sleep(0.3)


def _fail_for_good(number: int) -> int:
    raise BadCrc(source="a.log", position=number, expected="0x1", found="0x2")


def _fail_for_now(_: int) -> int:
    raise StoreUnavailable("s3://bucket/key: no answer")


def _fail_unexpectedly(_: int) -> int:
    raise KeyError("a bug")


def _die(_: int) -> int:
    os._exit(3)


def test_results_come_in_the_order_of_the_tasks(spark: Spark) -> None:
    assert spark.run_tasks(_double, list(range(20))) == list(range(0, 40, 2))


def test_jobs_can_run_at_once(spark: Spark) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(
            threads.map(lambda tasks: spark.run_tasks(_double, tasks), [[1], [2, 3], [4], [5, 6, 7]])
        )

    assert found == [[2], [4, 6], [8], [10, 12, 14]]


def test_a_job_whose_caller_is_gone_is_cancelled(spark: Spark) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spark.run_tasks(_take_a_while, list(range(100)), watch=interrupt)

    assert not spark.session.sparkContext.statusTracker().getActiveJobsIds()
    assert spark.run_tasks(_double, [4]) == [8]


def test_no_tasks_start_no_spark() -> None:
    assert Spark("no such master").run_tasks(_double, []) == []


def test_someone_can_watch_each_job_by_itself(spark: Spark) -> None:
    for _ in range(3):
        seen: list[int] = []

        spark.run_tasks(_take_a_while, list(range(4)), watch=seen.append)

        assert seen
        assert all(0 <= done <= 4 for done in seen)


def test_a_terminal_error_of_a_worker_is_raised_as_it_was(spark: Spark) -> None:
    with pytest.raises(BadCrc) as raised:
        spark.run_tasks(_fail_for_good, [7])

    assert (raised.value.source, raised.value.position) == ("a.log", 7)


def test_a_transient_error_of_a_worker_is_one_that_can_be_tried_again(spark: Spark) -> None:
    with pytest.raises(SparkFailed, match=r"StoreUnavailable: s3://bucket/key: no answer") as raised:
        spark.run_tasks(_fail_for_now, [1])

    assert raised.value.transient


def test_a_bug_in_a_worker_shows_its_last_words_and_keeps_its_traceback(spark: Spark) -> None:
    with pytest.raises(SparkFailed, match="KeyError: 'a bug'") as raised:
        spark.run_tasks(_fail_unexpectedly, [1])

    assert "_fail_unexpectedly" in raised.value.__notes__[0]


def test_a_worker_that_dies_is_reported_and_spark_lives_on(spark: Spark) -> None:
    with pytest.raises(SparkFailed, match="Python worker exited unexpectedly"):
        spark.run_tasks(_die, [1])

    assert spark.run_tasks(_double, [4]) == [8]


def test_what_is_set_in_the_environment_stays() -> None:
    environment = {"JAVA_HOME": "/opt/java", "SPARK_LOCAL_IP": "10.0.0.1"}

    prepare_environment(environment)

    assert environment["JAVA_HOME"] == "/opt/java"
    assert environment["SPARK_LOCAL_IP"] == "10.0.0.1"
    assert environment["PYSPARK_PYTHON"]


def test_executors_on_other_machines_get_no_loopback_and_run_their_own_python() -> None:
    environment = {"JAVA_HOME": "/opt/java"}

    prepare_environment(environment, "spark://10.0.0.1:7077")

    assert environment == {"JAVA_HOME": "/opt/java"}


def test_an_account_without_a_traceback_is_reported_by_its_first_line() -> None:
    assert first_cause("java.io.IOException: disk full\n\tat Some.java") == "java.io.IOException: disk full"


def test_a_killed_worker_and_a_lost_executor_are_reported_in_words_that_help() -> None:
    calling = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: "
    aborted = f"{calling}org.apache.spark.SparkException: Job aborted: most recent failure: "
    killed = f"{aborted}Lost task 0.0: Python worker exited unexpectedly (crashed).\n\tat Some.scala"
    assert "a Python worker was killed" in first_cause(killed)
    assert "local[2]" in first_cause(killed)
    assert (
        first_cause(f"{aborted}Lost task 0.0: executor 1 exited\n\tat A")
        == "Lost task 0.0: executor 1 exited"
    )
    assert first_cause(f"{calling}java.lang.Exception: no\n\tat A") == "java.lang.Exception: no"
