"""What runs in a Spark task to forget what is over: a coordinator's fold without its settled transactions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.transaction_timeline import IdTimeline
from spark_jobs.resolving.buckets import read_grouped
from spark_jobs.resolving.concluded_rows import COORDINATOR, SETTLED
from spark_jobs.resolving.coordinator_fold import get_fold
from spark_jobs.resolving.timeline_file import CoordinatorFold, write_fold
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import put_content

Settled = frozenset[tuple[str, int]]
"""Transactions by id and first record."""


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
    columns = (rows.column(name).to_pylist() for name in ("transactional_id", "first_record_offset"))
    after = without_settled(get_fold(task.lake, digest), frozenset(zip(*columns, strict=True)))
    return put_content(task.lake, write_fold(after))


def without_settled(fold: CoordinatorFold, settled: Settled) -> CoordinatorFold:
    """`fold` without what `settled` adds to be forgotten; an id that has expired goes with its last one."""
    over = fold.settled | settled
    kept = {name: _keep(known, over) for name, known in fold.timelines.items()}
    timelines = {
        name: known for name, known in kept.items() if name not in fold.expired or _unsettled(known, over)
    }
    return replace(
        fold,
        timelines=timelines,
        settled=frozenset(
            (name, txn.first_record_offset)
            for name, known in timelines.items()
            for txn in known.transactions
            if (name, txn.first_record_offset) in over
        ),
        expired=frozenset(name for name in fold.expired if name in timelines),
    )


def _keep(known: IdTimeline, over: Settled) -> IdTimeline:
    """What is not over, and the client's newest transaction: it tells which version the client speaks."""
    unsettled = _unsettled(known, over)
    own = [txn for txn in known.transactions if txn.is_clients_own][-1:]
    kept = sorted({*unsettled, *own}, key=lambda txn: txn.first_record_offset)
    return replace(known, transactions=tuple(kept))


def _unsettled(known: IdTimeline, over: Settled) -> Iterable[CoordinatorTransaction]:
    return [t for t in known.transactions if (known.transactional_id, t.first_record_offset) not in over]
