"""What runs in a Spark task to forget what is over: a coordinator's fold without its settled transactions."""

from dataclasses import dataclass

from spark_jobs.resolving.buckets import read_grouped
from spark_jobs.resolving.concluded_rows import COORDINATOR, SETTLED
from spark_jobs.resolving.timeline_file import without_settled
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import get_content, put_content


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTask:
    """Partitions of `__transaction_state` with the digests of their folds; `settled` are keys of files."""

    folds: tuple[tuple[int, str], ...]
    settled: tuple[str, ...]
    lake: ObjectStore


def forget_settled(task: ForgetTask) -> tuple[tuple[int, str], ...]:
    """The partitions with the digests of what the next night has to know of them."""
    return tuple((partition, _forget(task, partition, digest)) for partition, digest in task.folds)


def _forget(task: ForgetTask, partition: int, digest: str) -> str:
    rows = read_grouped(task.lake, task.settled, COORDINATOR, range(partition, partition + 1), schema=SETTLED)
    settled: dict[str, set[int]] = {}
    columns = (rows.column(name).to_pylist() for name in ("transactional_id", "first_record_offset"))
    for name, offset in zip(*columns, strict=True):
        settled.setdefault(name, set()).add(offset)
    return put_content(task.lake, without_settled(get_content(task.lake, digest), settled))
