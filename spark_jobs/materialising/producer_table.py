"""A partition's producers as rows."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.materialising.rows import NONE
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.tables.contract import as_published
from spark_jobs.tables.publish import OWN_TABLES

SCHEMA = OWN_TABLES["producers"].schema


def producer_rows(partition: TopicPartition, producers: Rows, run_date: date) -> pa.Table:
    """Rows of the table `producers`; `producers` are canonical: the newest batch is the last of each ring."""
    count = len(producers)
    newest = np.maximum(producers["batches"].astype(np.int64) - 1, 0)
    is_new = producers["batches"] == 0
    every = np.arange(count)
    transactions = producers["txn_first_offset"]
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(partition.topic), count),
        "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        "last_sequence": pa.array(producers["last_sequence"][every, newest], mask=is_new),
        "last_offset": pa.array(producers["last_offset"][every, newest], mask=is_new),
        "txn_first_offset": pa.array(transactions, mask=transactions == NONE),
        "run_date": pa.repeat(pa.scalar(run_date, pa.date32()), count),
        **{
            name: pa.array(np.ascontiguousarray(producers[name]))
            for name in ("producer_id", "producer_epoch", "last_timestamp", "coordinator_epoch")
        },
    }
    return as_published(pa.table(columns), SCHEMA)
