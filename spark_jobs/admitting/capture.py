"""A captured partition: Onceover is its broker, judges every batch and keeps the log (facts §2.3-2.11).

Headers decide. What a leader finds out only by reading records (a payload that does not decompress, records
that contradict their header, a missing key on a compacted topic) shows later, when they are decoded. Whether
a coordinator has vouched for a transactional batch (facts §2.5) no capture tells: it counts as vouched for.
"""

from contextlib import ExitStack
from dataclasses import replace

from spark_jobs.admitting.accepted_log import AcceptedLog
from spark_jobs.admitting.batch_bytes import BatchCopier
from spark_jobs.admitting.capture_chunks import CaptureObjects, CaptureRules, with_markers
from spark_jobs.admitting.copy_chunks import unused_chunk
from spark_jobs.admitting.job import AdmittedPartition, PartitionJob
from spark_jobs.admitting.judging import PartitionMemory
from spark_jobs.admitting.partition import PartitionNight, TaskFiles
from spark_jobs.admitting.verdict_file import VerdictFile
from spark_jobs.protocol.decision import Rules
from spark_jobs.storage.index_rows import iter_index
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState, get_state


def admit_capture(job: PartitionJob, files: TaskFiles) -> AdmittedPartition:
    """Judges the batches in arrival order, gives offsets to those that it takes, and writes the log."""
    task = files.task
    state = get_state(task.lake, job.state)
    memory = PartitionMemory(state, Rules(transaction_version=task.settings.kafka.transaction_version))
    objects = CaptureObjects(job.objects, task.settings)
    rules = CaptureRules(job.partition, objects, task.settings)
    markers = read_table(task.lake, job.markers) if job.markers else None
    copier = BatchCopier(
        objects=objects, staged=StagedObjects(task.settings), leader_epoch=state.leader_epoch
    )
    with ExitStack() as stack:
        batches = stack.enter_context(
            VerdictFile(task.lake, job.partition, lambda judged: objects.sources(judged.rows))
        )
        log = stack.enter_context(
            AcceptedLog(
                task.lake,
                task.folder,
                f"log/{job.partition}",
                memory=memory,
                copier=copier,
                segment_bytes=task.settings.limits.segment_bytes,
            )
        )
        night = PartitionNight(job, files, batches)
        keys = (key for copy in job.copies for key in copy.keys)
        for rows in with_markers(iter_index(task.lake, keys), markers):
            for part in log.fitting(rules.chunk(rows)):
                judged, closed = memory.judge(part)
                log.append(judged, closed)
                night.keep(judged, closed)
        for copy in job.unused:
            for rows in iter_index(task.lake, copy.keys):
                night.keep(*memory.judge(unused_chunk(rows, copy.number)))
        after = _state_after(state, memory)
        return night.finish(state, after, memory, log.finish(after.leader_epochs))


def _state_after(state: PartitionState, memory: PartitionMemory) -> PartitionState:
    return replace(
        state,
        end_offset=memory.producers.end_offset,
        producers=memory.producers.canonical(),
        open_transactions=memory.transactions.open_transactions(),
    )
