"""What a Spark task of `admit` does: it admits partitions and writes their tables, logs and states.

Partitions of brokers' logs are admitted in `broker_log`, captured ones here: every batch is judged as its
leader would judge it (facts §2.3-2.11). Headers decide. What a leader finds out only by reading records (a
payload that does not decompress, records that contradict their header) shows later, when they are decoded. A
capture does not show whether a coordinator has verified a transactional batch (facts §2.5): it counts as
verified. Nor does a capture show when a batch arrived: timestamps stay the producers' own, also under
LogAppendTime.
"""

from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kernels.partition_transactions import TRANSACTION
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.accepted_log import LOG
from spark_jobs.lake.index_rows import iter_index
from spark_jobs.lake.inherited_rows import get_inherited, inherited_object, put_inherited, with_needed_objects
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.states import PartitionState, get_state, settle_states
from spark_jobs.pipeline.admit.accepted_log import AcceptedLog, Lineage
from spark_jobs.pipeline.admit.broker_log import admit_broker_log, unused_chunk
from spark_jobs.pipeline.admit.job import AdmitSummary, AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.pipeline.admit.partition import PartitionRun, SharedFile, TaskFiles, VerdictFile
from spark_jobs.pipeline.captures.chunk import Judged, PartitionMemory
from spark_jobs.pipeline.captures.judge import CaptureJudge, CaptureObjects, ParkingMemory, with_markers
from spark_jobs.tables.admit import PARTITION_TRANSACTIONS

NO_TRANSACTIONS = np.empty(0, dtype=TRANSACTION)


def admit_capture(job: PartitionJob, files: TaskFiles) -> AdmittedPartition:
    """Judges the batches in arrival order, gives offsets to those that it takes, and plans the log."""
    with ExitStack() as stack:
        return _Capture(job, files, stack).admit()


class _Capture:
    """One captured partition during admission."""

    def __init__(self, job: PartitionJob, files: TaskFiles, stack: ExitStack) -> None:
        task = files.task
        self._job, self._task = job, task
        state = get_state(task.lake, job.state)
        self._state = state.without_producers()
        self._objects = CaptureObjects(job.objects, task.settings)
        self._parked = self._parked_before()
        self._judge = CaptureJudge(job.partition, state, self._objects, task.settings, parked=self._parked)
        self._memory = self._judge.memory
        batches = VerdictFile(task.lake, job.partition, lambda judged: self._objects.sources(judged.rows))
        self._run = PartitionRun(job, files, stack.enter_context(batches))
        self._run.inherited = len(self._parked)
        self._log = self._open_log()

    def _parked_before(self) -> Rows:
        """The parked batches of earlier runs; in memory `object` is their object's order."""
        rows = get_inherited(self._task.lake, self._state.parked).rows
        orders = np.array([entry.order for entry in self._objects.entries if entry.order < 0], dtype=np.int32)
        if len(rows):
            rows["object"] = orders[rows["object"]]
        return rows

    def _open_log(self) -> AcceptedLog:
        return AcceptedLog(
            self._task.lake,
            self._task.folder,
            f"{LOG}{self._job.partition}",
            memory=self._memory,
            lineage=Lineage(self._state, self._job.truncation),
            segment_bytes=self._task.settings.limits.segment_bytes,
        )

    def admit(self) -> AdmittedPartition:
        """Admits all batches of the run."""
        lake, job = self._task.lake, self._job
        markers = read_table(lake, job.markers) if job.markers else None
        keys = (key for copy in job.copies for key in copy.keys)
        for rows in with_markers(iter_index(lake, keys), markers):
            for part in self._log.fitting(self._judge.chunk(rows)):
                self._keep(*self._judge.judge(part))
        parked = self._end()
        for copy in job.unused:
            for rows in iter_index(lake, copy.keys):
                self._run.keep(*self._memory.judge(unused_chunk(rows, copy.number)))
        segments, outputs, leader_epochs = self._log.finish()
        after = replace(_state_after(self._state, self._memory, parked), leader_epochs=leader_epochs)
        self._run.staged_end_offset = after.end_offset
        admitted = self._run.finish(self._state, after, self._memory, outputs)
        return replace(admitted, segments=segments)

    def _keep(self, judged: Judged, closed: Rows) -> None:
        self._log.append(judged, closed, first_row=self._run.rows)
        self._run.keep(judged, closed)

    def _end(self) -> str:
        """Stores the parked batches for the next run; returns the name of their file."""
        if not isinstance(self._memory, ParkingMemory):
            return ""
        self._keep(*self._memory.end())
        judged, rows = self._memory.left()
        self._run.keep(judged, NO_TRANSACTIONS)
        entries = {entry.order: entry for entry in self._objects.entries}
        orders, places = np.unique(rows["object"], return_inverse=True)
        rows["object"] = places
        objects = [inherited_object(entries[int(order)]) for order in orders]
        return put_inherited(self._task.lake, with_needed_objects(objects, rows))


def _state_after(state: PartitionState, memory: PartitionMemory, parked: str) -> PartitionState:
    return replace(
        state,
        end_offset=memory.producers.end_offset,
        producers=memory.producers.rows,
        open_transactions=memory.transactions.open_transactions(),
        parked=parked,
    )


ADMIT = {AppendOrigin.CLIENT: admit_capture, AppendOrigin.REPLICATION: admit_broker_log}


def admit_partitions(task: AdmitTask) -> AdmitSummary:
    """Admits one partition after the other; the same task again writes the same bytes."""
    with ExitStack() as stack:
        transactions = stack.enter_context(
            SharedFile(task.lake, PARTITION_TRANSACTIONS, PARTITION_TRANSACTIONS.file_of(task=task.number))
        )
        files = TaskFiles(task=task, transactions=transactions)
        partitions = tuple(ADMIT[job.origin](job, files) for job in task.jobs)
        settle_states(task.lake, (each.state for each in partitions))
        outputs = transactions.finish(task.folder)
    return AdmitSummary(partitions=partitions, transactions=transactions.name, outputs=outputs)
