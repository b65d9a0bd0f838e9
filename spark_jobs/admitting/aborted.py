"""The `.txnindex` entries of transactions that a chunk of batches aborted (facts §1.9)."""

from collections.abc import Iterator

import numpy as np

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import TransactionTable
from spark_jobs.protocol.control_record import ControlType
from spark_jobs.protocol.txn_index import AbortedTxn

_ABORT = int(ControlType.ABORT)


def aborted_transactions(closed: Rows, transactions: TransactionTable) -> Iterator[AbortedTxn]:
    """An entry for each of `closed` that had data and was aborted, in the order of their markers.

    `transactions` are those after the chunk: whatever was open at a marker is still open, or closed later.
    """
    with_data = closed[closed["batches"] > 0]
    if not (with_data["marker_type"] == _ABORT).any():
        return
    still_open = transactions.open_transactions()["first_offset"]
    opened = np.sort(np.concatenate((with_data["first_offset"], still_open))).tolist()
    gone: set[int] = set()
    oldest = 0
    for txn in with_data:
        first, marker = int(txn["first_offset"]), int(txn["marker_offset"])
        gone.add(first)
        while oldest < len(opened) and opened[oldest] in gone:
            oldest += 1
        if txn["marker_type"] == _ABORT:
            is_first = oldest == len(opened) or opened[oldest] > marker
            yield AbortedTxn(
                producer_id=int(txn["producer_id"]),
                first_offset=first,
                last_offset=marker,
                last_stable_offset=marker + 1 if is_first else opened[oldest],
            )
