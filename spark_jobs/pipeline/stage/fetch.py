"""The driver's side of fetching: divides the objects among Spark tasks, and checks what the tasks report.

A run with little to fetch does it in the driver.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain

from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.lake.errors import StorageError, StoreDenied
from spark_jobs.lake.manifest import SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.context import spread
from spark_jobs.pipeline.stage.worker import FetchTask, Found, ObjectToFetch, fetch, fetch_objects
from spark_jobs.progress import Advance, byte_progress
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import Fetched

IN_DRIVER_COST = 256 * 2**20
"""Up to this cost the driver's threads fetch everything."""
FEWEST_WITH_HEADERS = 64 * 2**20
"""Fewer bytes are read again by `index` in less time than the driver needs to load the compiled scan."""
TASKS_PER_SLOT = 4
SMALLEST_TASK, LARGEST_TASK = 64 * 2**20, 2**30
"""Cost of a task: above Spark's own for starting it, below what would be costly to repeat."""


def fetch_all(
    wanted: Sequence[ObjectToFetch], settings: Settings, day: date, *, lake: ObjectStore, spark: Spark | None
) -> list[Fetched | StageProblem]:
    """Every object with its digest and in its place, or why it was set aside; in the order of `wanted`.

    The first error of a store stops the rest, an object's own fault does not.
    """
    unknown = sum(each.placed.stat.size for each in wanted if not each.is_known)
    whole = FetchTask(
        wanted=tuple(wanted),
        lake=lake,
        settings=settings,
        day=day,
        keeps_headers=unknown >= FEWEST_WITH_HEADERS,
    )
    with byte_progress("stage", sum(each.cost for each in wanted)) as advance:
        if spark is None or sum(each.cost for each in wanted) <= IN_DRIVER_COST:
            found = fetch(whole, advance)
        else:
            found = _fetch_by_tasks(whole, spark, advance)
    return [_fetched(each, result) for each, result in zip(wanted, found, strict=True)]


def _fetched(wanted: ObjectToFetch, found: Found | StageProblem) -> Fetched | StageProblem:
    if isinstance(found, StageProblem):
        return found
    return Fetched(
        placed=wanted.placed,
        digest=found.digest,
        other=found.other,
        prefix=found.prefix,
        is_here=found.is_here,
    )


def _fetch_by_tasks(whole: FetchTask, spark: Spark, advance: Advance) -> list[Found | StageProblem]:
    packed = spread(
        whole.wanted,
        cost=lambda each: each.cost,
        tasks=TASKS_PER_SLOT * spark.parallelism,
        smallest=SMALLEST_TASK,
        largest=LARGEST_TASK,
    )
    tasks = [replace(whole, wanted=together) for together in packed]
    share, shown = sum(each.cost for each in whole.wanted) // len(tasks), [0]

    def watch(done: int) -> None:
        advance((done - shown[0]) * share)
        shown[0] = done

    description = f"onceover {whole.day} stage fetch objects"
    found = list(
        chain.from_iterable(spark.run_tasks(fetch_objects, tasks, watch=watch, description=description))
    )
    _check_executors(whole, found)
    return found


def _check_executors(whole: FetchTask, found: Iterable[Found | StageProblem]) -> None:
    """Raises `StoreDenied` if a task could not read what the driver can: that is no fault of the object."""
    for wanted, result in zip(whole.wanted, found, strict=True):
        if isinstance(result, Found) or result.reason is SetAside.DAMAGED:
            continue
        if _is_readable(wanted.placed, whole.settings):
            raise StoreDenied(
                f"{result.detail}; but the driver can read it: give Spark's executors the same credentials "
                f"and mounts as the driver for {wanted.placed.source.root}"
            )


def _is_readable(placed: Placed, settings: Settings) -> bool:
    """Whether the driver still finds the object that was listed."""
    try:
        reader_of(placed.source).content(settings).read_range(placed.path, 0, 1, version=placed.stat.version)
    except StorageError:
        return False
    return True
