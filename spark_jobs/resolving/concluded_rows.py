"""Transactions after the night's cut as rows: of their table, for partitions, for coordinators."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.coordinator_logs.completed import COMPLETED, COORDINATOR
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.hanging import HangingTransaction, hanging_transaction
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.resolving.cuts import Numbers
from spark_jobs.resolving.fates import Cut, Fates
from spark_jobs.resolving.joined_files import JoinedFile
from spark_jobs.resolving.joined_rows import NONE, OUTCOMES
from spark_jobs.resolving.part_rows import PART, partition_transactions
from spark_jobs.resolving.recreated import deleted_logs
from spark_jobs.tables.transactions import TRANSACTIONS

BIN = "bin"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(BIN, pa.int32(), nullable=False),
    pa.field("outcome", pa.int8(), nullable=False),
    pa.field("is_timed_out", pa.bool_(), nullable=False),
    pa.field("is_late", pa.bool_(), nullable=False),
    pa.field("is_kept", pa.bool_(), nullable=False),
    pa.field("transactional_id", pa.string()),
    *(pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()),
]
CONCLUDED_PARTS = pa.schema(_FIELDS)
"""Parts with their outcome. `is_late`: published tonight below its partition's floor. `is_kept`: not settled.

`timed_out` of a part is what the next night has to know: its batches are held, though below its cut.
"""


def parts_table(file: JoinedFile, fates: Fates, cut: Cut, bins: Numbers) -> pa.Table:
    """Rows of `CONCLUDED_PARTS`; `bins` says by which task each partition is carried on."""
    parts, number = file.parts.copy(), file.transaction
    is_timed_out = file.is_timed_out[number]
    was_late = parts["timed_out"] != 0
    is_below = parts["last_offset"] < cut.cuts[parts["partition"]]
    stays_late = was_late & (file.is_undecided | fates.waits)[number]
    is_passed = (is_timed_out | file.is_set_aside[number]) & is_below
    parts["timed_out"] = (parts["batches"] > 0) & (is_passed | stays_late)
    columns: dict[str, Any] = {
        BIN: bins[parts["partition"]],
        "outcome": file.outcome[number].astype(np.int8),
        "is_timed_out": is_timed_out,
        "is_late": was_late & fates.is_published[number],
        "is_kept": (parts["marker_type"] == NO_MARKER) | ~fates.is_settled[number],
        "transactional_id": file.transactions.column("transactional_id").take(number),
        **{name: np.ascontiguousarray(parts[name]) for name in PART.names or ()},
    }
    return pa.table([columns[name] for name in CONCLUDED_PARTS.names], schema=CONCLUDED_PARTS)


def completed_table(file: JoinedFile, fates: Fates) -> pa.Table:
    """Rows of `COMPLETED`."""
    known = file.transactions.column(COORDINATOR).to_numpy() != NONE
    return (
        file.transactions.filter(pa.array(known & fates.is_settled)).select(COMPLETED.names).cast(COMPLETED)
    )


def transactions_table(
    file: JoinedFile, fates: Fates, cut: Cut, partitions: Sequence[TopicPartition]
) -> pa.Table:
    """Rows of `TRANSACTIONS`."""
    held_back = np.zeros(file.transactions.num_rows, dtype=np.int64)
    is_hanging = file.outcome == OUTCOMES.index(Outcome.HANGING)
    owners = file.transactions.column("transactional_id").to_pylist() if is_hanging.any() else []
    commands: dict[int, list[str]] = {}
    deleted = deleted_logs(partitions)
    for number, partition, part in _undecided_parts(file, partitions):
        burden = _burden(part, partition, cut)
        held_back[number] += burden.held_back
        if is_hanging[number] and part.marker is None and part.topic_partition not in deleted:
            commands.setdefault(number, []).append(burden.advice(owners[number]))
    kind = TRANSACTIONS.schema.field("abort_commands").type
    by_number = [commands.get(number, ()) for number in range(len(held_back))]
    table = (
        file.transactions.append_column("published", pa.array(fates.is_published))
        .append_column("held_back", pa.array(held_back))
        .append_column("abort_commands", pa.array(by_number, kind))
    )
    return TRANSACTIONS.cast(table.filter(pa.array(fates.is_listed)))


def _undecided_parts(
    file: JoinedFile, partitions: Sequence[TopicPartition]
) -> Iterator[tuple[int, int, PartitionTransaction]]:
    """The parts that somebody has to decide, each behind the numbers of its transaction and its partition."""
    chosen = file.is_waited_for
    rows, numbers = file.parts[chosen], file.transaction[chosen].tolist()
    return zip(numbers, rows["partition"].tolist(), partition_transactions(rows, partitions), strict=True)


def _burden(part: PartitionTransaction, partition: int, cut: Cut) -> HangingTransaction:
    """What the part holds back: everything from where its partition is decided, if it is the oldest there."""
    return hanging_transaction(
        part,
        last_stable_offset=int(cut.decided[partition]),
        high_watermark=int(cut.ends[partition]),
    )
