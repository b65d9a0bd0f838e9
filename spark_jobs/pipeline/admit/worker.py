"""What a Spark task of `admit` does: it admits partitions and writes their tables, logs and states."""

from contextlib import ExitStack

from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.states import settle_states
from spark_jobs.pipeline.admit.broker_log import admit_broker_log
from spark_jobs.pipeline.admit.capture import admit_capture
from spark_jobs.pipeline.admit.job import AdmitSummary, AdmitTask
from spark_jobs.pipeline.admit.partition import SharedFile, TaskFiles
from spark_jobs.tables.admit import PARTITION_TRANSACTIONS

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
