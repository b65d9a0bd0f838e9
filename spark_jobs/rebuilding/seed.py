"""A captured partition's past from a broker's log of it: the newest good snapshot, then the log's tail."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.admission import fold
from spark_jobs.kernels.producers import ProducerTable
from spark_jobs.kernels.transactions import TransactionTable
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.rebuilding.job import Provenance, RebuildJob, RebuildTask
from spark_jobs.rebuilding.snapshots import is_expired, newest_snapshot, offset_of, open_transactions_of
from spark_jobs.storage.index_files import IndexedCopy
from spark_jobs.storage.index_rows import batches_of, is_problem, values
from spark_jobs.storage.log_rows import PLACE_COLUMNS, iter_log
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState
from spark_jobs.tables.rebuild import StateOrigin

REPLAY = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)
OFFSETS = [*PLACE_COLUMNS, "partition_leader_epoch"]


def state_from_seed(job: RebuildJob, task: RebuildTask) -> tuple[PartitionState, Provenance]:
    """The state at the end of the furthest of the job's seeds; Onceover's own log begins there."""
    copy = max(job.seeds, key=lambda copy: (*_reach(task.lake, copy), -copy.number))
    leader_epoch, end_offset = _reach(task.lake, copy)
    own = [
        entry for entry in job.snapshots if (entry.source, entry.directory) == (copy.source, copy.directory)
    ]
    found = newest_snapshot(
        (entry for entry in own if offset_of(entry) <= end_offset), StagedObjects(task.settings)
    )
    expiration_ms = task.settings.kafka.producer_id_expiration_ms
    kept = found.producers[~is_expired(found.producers, now=task.day_start, expiration_ms=expiration_ms)]
    producers, transactions = ProducerTable(kept), TransactionTable(open_transactions_of(kept))
    first: int | None = None
    for rows in _tail(task.lake, copy, found.offset):
        batches = batches_of(rows)
        transactions.track(batches, fold(batches, producers, rules=REPLAY))
        first = int(batches.base_offset[0]) if first is None else first
    state = PartitionState(
        log_start_offset=end_offset,
        end_offset=end_offset,
        published_offset=end_offset,
        leader_epochs=(EpochEntry(epoch=leader_epoch + 1, start_offset=end_offset),),
        producers=producers.rows,
        open_transactions=transactions.open_transactions(),
    )
    return state, Provenance(
        origin=StateOrigin.SEED,
        snapshot=found.name,
        snapshot_offset=found.offset if found.name else None,
        tail_first_offset=first,
        tail_last_offset=None if first is None else end_offset - 1,
        skipped=found.skipped,
    )


def _reach(lake: ObjectStore, copy: IndexedCopy) -> tuple[int, int]:
    """(newest leader epoch, end offset) of what an unclean recovery would keep of the copy."""
    epoch, end_offset = -1, 0
    for rows in _until_problem(iter_log(lake, copy, columns=OFFSETS)):
        epoch = max(epoch, int(values(rows, "partition_leader_epoch").max()))
        end_offset = int(values(rows, "base_offset")[-1] + values(rows, "last_offset_delta")[-1]) + 1
    return epoch, end_offset


def _tail(lake: ObjectStore, copy: IndexedCopy, offset: int) -> Iterator[pa.RecordBatch]:
    """The batches from the one that holds `offset` on (facts §2.12)."""
    for rows in _until_problem(iter_log(lake, copy)):
        last = values(rows, "base_offset") + values(rows, "last_offset_delta")
        start = int(np.searchsorted(last, offset))
        if start < rows.num_rows:
            yield rows.slice(start)


def _until_problem(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in chunks:
        problems = np.flatnonzero(is_problem(rows))
        good = rows.slice(0, int(problems[0])) if len(problems) else rows
        if good.num_rows:
            yield good
        if len(problems):
            return
