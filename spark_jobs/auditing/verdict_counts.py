"""Conservation: how many batches came in, and what became of them."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.auditing.batch_columns import is_counted
from spark_jobs.protocol.verdict import Verdict, VerdictGroup


class VerdictCounts:
    """Counts the verdicts of one partition, part by part."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        """A part of `batches`."""
        found = pc.value_counts(batch.filter(is_counted(batch)).column("verdict"))
        counts = np.asarray(found.field("counts")).tolist()
        self._counts.update(dict(zip(map(str, found.field("values")), counts, strict=True)))

    def facts(self) -> Mapping[str, int]:
        """What is no known verdict counts as none."""
        known = {verdict: self._counts[verdict.value] for verdict in Verdict}
        groups = dict.fromkeys(VerdictGroup, 0)
        for verdict, count in known.items():
            groups[verdict.group] += count
        return {
            "verdicts": sum(known.values()),
            "out_of_order": known[Verdict.OUT_OF_ORDER],
            **{group.value: count for group, count in groups.items()},
            "duplicate": known[Verdict.DUPLICATE],  # no producer sent an overlap twice
            "overlap": known[Verdict.OVERLAP],
        }
