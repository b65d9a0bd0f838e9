"""What classic Spark and Spark Connect have in common."""

from collections.abc import Mapping
from threading import current_thread, main_thread
from typing import NoReturn

from pyspark.sql import SparkSession

from spark_jobs.kafka.errors import OnceoverError

SESSION_OPTIONS: Mapping[str, str] = {
    # A task is a row of a local table, and each row is a partition.
    "spark.sql.leafNodeDefaultParallelism": str(2**31 - 1),
    "spark.sql.execution.arrow.localRelationThreshold": "1g",
}


MOST_EXECUTORS = 1 << 20
"""Spark's own default is the largest number there is, and says nothing."""


class SparkFailed(OnceoverError):
    """Spark itself, or a worker for a reason outside the data, gave up; trying again can help."""

    transient = True


def dynamic_slots(session: SparkSession) -> int:
    """Tasks at once after dynamic allocation has brought as many executors as it may; 0 if that is open."""
    conf = session.conf
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return 0
    executors = int(conf.get("spark.dynamicAllocation.maxExecutors", "0") or 0)
    cores = int(conf.get("spark.executor.cores", "1") or 1)
    return executors * cores if executors <= MOST_EXECUTORS else 0


def is_main_thread() -> bool:
    return current_thread() is main_thread()


def interrupt_as(before: object, number: int) -> NoReturn:
    """Leaves it to the handler that was there before; this thread is interrupted in any case."""
    if callable(before):
        before(number, None)
    raise KeyboardInterrupt
