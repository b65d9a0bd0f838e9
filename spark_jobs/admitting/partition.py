"""What admitting a partition is about, whichever kind of source it comes from."""

from dataclasses import dataclass

import numpy as np

from spark_jobs.admitting.job import AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.admitting.judging import Judged, PartitionMemory
from spark_jobs.admitting.shared_file import SharedFile, transactions_table
from spark_jobs.admitting.verdict_file import VerdictFile
from spark_jobs.kernels.producers import Rows
from spark_jobs.storage.index_rows import values
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.state_file import PartitionState, put_state
from spark_jobs.tables.admit import MARKER_OBJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """The task, and the tables that its partitions share."""

    task: AdmitTask
    transactions: SharedFile


class PartitionRun:
    """The outcome of one partition while it grows; each chunk is kept once it is judged."""

    def __init__(self, job: PartitionJob, files: TaskFiles, batches: VerdictFile) -> None:
        self._job, self._files, self._batches = job, files, batches
        self._transactions = 0
        self.gaps = self.critical = self.markers = self.inherited = self.staged_end_offset = 0

    @property
    def rows(self) -> int:
        """Verdicts so far."""
        return self._batches.rows

    def keep(self, judged: Judged, closed: Rows) -> None:
        """A chunk's verdicts, and the transactions that it closed."""
        self.markers += int(np.count_nonzero(values(judged.rows, "object_order") == MARKER_OBJECT))
        self._batches.add(judged)
        self.critical += int(np.count_nonzero(judged.outside_transaction))
        self._keep_transactions(closed)

    def finish(
        self,
        before: PartitionState,
        after: PartitionState,
        memory: PartitionMemory,
        outputs: tuple[OutputFile, ...],
    ) -> AdmittedPartition:
        """Writes what is left; the state file is named by its content, so it can be written twice.

        It is the task that waits for the disk, once for all its partitions.
        """
        self._keep_transactions(memory.transactions.open_transactions())
        opened = after.open_transactions["first_offset"]
        task = self._files.task
        return AdmittedPartition(
            partition=self._job.partition,
            origin=self._job.origin,
            verdicts=self._batches.verdicts,
            inherited=self.inherited,
            markers=self.markers,
            start_offset=before.end_offset,
            end_offset=after.end_offset,
            log_start_offset=after.log_start_offset,
            first_unstable_offset=int(opened[0]) if len(opened) else None,
            leader_epoch=after.leader_epoch,
            producers=len(after.producers),
            gaps=self.gaps,
            cleaned_offset=self._job.cleaned_offset,
            critical=self.critical,
            staged_end_offset=self.staged_end_offset,
            transactions=self._transactions,
            state=put_state(task.lake, after, lasting=False),
            batches=self._batches.name,
            outputs=(*outputs, self._batches.finish(task.folder)),
        )

    def _keep_transactions(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._files.transactions.add(transactions_table(self._job.partition, rows))
        self._transactions += len(rows)
