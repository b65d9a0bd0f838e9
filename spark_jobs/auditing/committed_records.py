"""How many records the run has to publish of a partition, as the headers of its batches count them."""

from collections.abc import Mapping

import numpy as np

from spark_jobs.auditing.batch_columns import BatchColumns
from spark_jobs.auditing.inputs import PartitionInputs
from spark_jobs.auditing.outcomes import Outcomes


class CommittedRecords:
    """Counts the records of committed batches between the offsets that the run publishes."""

    def __init__(self, inputs: PartitionInputs, outcomes: Outcomes) -> None:
        self._end, self._first, self._outcomes = inputs.end_offset, inputs.first_offset, outcomes
        self._late = np.array(inputs.late, dtype=np.int64)
        self._records = self._uncertain = self._uncounted = 0

    def add(self, rows: BatchColumns) -> None:
        """Accepted batches."""
        first = np.where(np.isin(rows.txn_first_offset, self._late), 0, self._first)
        committed = self._outcomes.are_committed(rows.txn_first_offset)
        chosen = rows.is_data & committed & (rows.last_offset >= first) & (rows.offset < self._end)
        count, is_cut = rows.record_count[chosen], (rows.offset < first)[chosen]
        self._records += int(count[count > 0].sum())
        self._uncertain += int(count[is_cut & (count > 0)].sum())
        self._uncounted += int(np.count_nonzero(count < 0))

    def facts(self) -> Mapping[str, int]:
        """Records in all, those that may be before the log's start, and batches that say no number."""
        return {
            "committed_records": self._records,
            "uncertain_records": self._uncertain,
            "uncounted_batches": self._uncounted,
        }
