"""The outcomes of a partition's transactions as the lake has them."""

import numpy as np

from spark_jobs.materialising.outcomes import Outcomes, View
from spark_jobs.materialising.summaries import PartitionPlan
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table


def view_of(lake: ObjectStore, plan: PartitionPlan) -> View:
    """What the run publishes of the partition."""
    outcomes = _read_outcomes(lake, plan.outcomes) if plan.outcomes else Outcomes()
    return View(first_offset=plan.first_offset, end_offset=plan.end_offset, outcomes=outcomes, late=plan.late)


def _read_outcomes(lake: ObjectStore, key: str) -> Outcomes:
    table = read_table(lake, key)
    return Outcomes(
        first_offset=np.asarray(table.column("first_offset")),
        outcome=table.column("outcome").combine_chunks(),
        transactional_id=table.column("transactional_id").combine_chunks(),
    )
