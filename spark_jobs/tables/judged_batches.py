"""`batches` as readers get it: with the object's path, and what became of the batch's transaction."""

from dataclasses import replace

import pyarrow as pa

from spark_jobs.tables.batches import BATCHES
from spark_jobs.tables.contract import Column

JUDGED_BATCHES = replace(
    BATCHES,
    columns=(
        *BATCHES.columns,
        Column(
            "path", pa.string(), "object that it lies in; null for a marker that the coordinator gave", True
        ),
        Column("outcome", pa.string(), "outcome of its transaction; null outside of any", True),
    ),
)
