"""Producers as rows of a table and as values of `protocol.producer_state`: the same facts in two shapes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from spark_jobs.kernels.producers import PRODUCER, ProducerTable, Rows
from spark_jobs.protocol.producer_state import NO_OFFSET, BatchMetadata, ProducerStateEntry, ProducerStates


def table_of(states: ProducerStates) -> ProducerTable:
    """The table that continues where `states` stands."""
    return ProducerTable(rows_of_entries(states.producers.values()), end_offset=states.end_offset)


def states_of(table: ProducerTable) -> ProducerStates:
    """The table's producers as values, by producer id."""
    entries = (_entry(row) for row in table.canonical())
    return ProducerStates(
        producers={entry.producer_id: entry for entry in entries}, end_offset=table.end_offset
    )


def rows_of_entries(entries: Iterable[ProducerStateEntry]) -> Rows:
    """One row per entry, in their order."""
    listed = tuple(entries)
    rows = np.zeros(len(listed), dtype=PRODUCER)
    for row, entry in zip(rows, listed, strict=True):
        _write(row, entry)
    return rows


def _write(row: Any, entry: ProducerStateEntry) -> None:
    txn_first_offset = entry.current_txn_first_offset
    row["producer_id"] = entry.producer_id
    row["producer_epoch"] = entry.producer_epoch
    row["coordinator_epoch"] = entry.coordinator_epoch
    row["last_timestamp"] = entry.last_timestamp
    row["txn_first_offset"] = NO_OFFSET if txn_first_offset is None else txn_first_offset
    row["batches"] = len(entry.batches)
    for index, batch in enumerate(entry.batches):
        row["last_sequence"][index] = batch.last_sequence
        row["last_offset"][index] = batch.last_offset
        row["offset_delta"][index] = batch.offset_delta
        row["timestamp"][index] = batch.timestamp


def _entry(row: Any) -> ProducerStateEntry:
    txn_first_offset = int(row["txn_first_offset"])
    return ProducerStateEntry(
        producer_id=int(row["producer_id"]),
        producer_epoch=int(row["producer_epoch"]),
        coordinator_epoch=int(row["coordinator_epoch"]),
        last_timestamp=int(row["last_timestamp"]),
        current_txn_first_offset=None if txn_first_offset == NO_OFFSET else txn_first_offset,
        batches=tuple(_batch(row, index) for index in range(row["batches"])),
    )


def _batch(row: Any, index: int) -> BatchMetadata:
    return BatchMetadata(
        last_sequence=int(row["last_sequence"][index]),
        last_offset=int(row["last_offset"][index]),
        offset_delta=int(row["offset_delta"][index]),
        timestamp=int(row["timestamp"][index]),
    )
