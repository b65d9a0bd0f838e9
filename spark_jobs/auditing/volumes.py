"""How much a run brought of each topic, and how much the runs before it did."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.tables.audit import TOPIC_VOLUMES

READERS = 8
SUMMED = {
    "batches": "verdicts",
    "duplicate": "duplicate",
    "overlap": "overlap",
    "rejected": "rejected",
    "out_of_order": "out_of_order",
    "corrupt": "corrupt",
    "records": "rows",
}
"""Columns of `topic_volumes` by those of `partition_facts` that they are sums of."""


def topic_volumes(partitions: pa.Table) -> pa.Table:
    """The table `topic_volumes` of a run, from its `partition_facts`."""
    sums = partitions.group_by("topic").aggregate([(name, "sum") for name in SUMMED.values()])
    columns = {
        "topic": sums.column("topic"),
        **{name: sums.column(f"{summed}_sum") for name, summed in SUMMED.items()},
    }
    return TOPIC_VOLUMES.cast(pa.table(columns).sort_by("topic"))


def earlier_volumes(lake: ObjectStore, chain: Chain, day: date, *, runs: int) -> tuple[pa.Table, ...]:
    """`topic_volumes` of the last `runs` runs before `day`, oldest first; without those that have none."""
    keys = [step_key(entry.run_id, Step.AUDIT, TOPIC_VOLUMES.file) for entry in chain.before(day)[-runs:]]
    with ThreadPoolExecutor(READERS) as readers:
        found = [
            key for key, stat in zip(keys, readers.map(lake.stat, keys), strict=True) if stat is not None
        ]
        return tuple(readers.map(lambda key: read_table(lake, key), found))
