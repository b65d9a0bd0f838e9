"""`partition_facts`: what the audit counted in each partition; the expectations judge these numbers."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract


def _count(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning)


PARTITION_FACTS = Contract(
    name="partition_facts",
    meaning="One row per partition ever seen, counted anew from the files that the run has written.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        _count("batches_in", "rows of the night's index, and batches that waited for the night"),
        _count("verdicts", "batches with a verdict"),
        _count("accepted", "batches taken"),
        _count("duplicate", "retries of batches that were there already"),
        _count("overlap", "batches that an earlier run or another copy of the log had brought"),
        _count("rejected", "batches refused"),
        _count("corrupt", "stretches of bytes that are no batch"),
        _count("held", "batches that wait"),
        _count("out_of_order", "those of the refused whose sequence left a gap"),
        _count("disordered_batches", "accepted batches that do not begin after the one before"),
        _count("missing_offsets", "offsets between accepted batches that no reported gap explains"),
        _count("gap_offsets", "offsets that are missing from every copy, with batches held behind them"),
        _count("behind_gaps", "batches that are held because offsets before them are missing"),
        _count("sequence_gaps", "accepted batches that do not continue their producer's sequence"),
        _count("committed_records", "records of committed batches, as the batches' headers count them"),
        _count("uncertain_records", "those of them in a batch that the log's start cuts through"),
        _count("uncounted_batches", "committed batches of formats whose headers count no records"),
        _count("unreadable_records", "those of the committed that could not be decoded"),
        _count("unfit_records", "those of the committed whose values do not fit the topic's schema"),
        _count("replayed_records", "records of earlier nights that were decoded again"),
        _count("rows", "rows written to the topic's table"),
        _count("disordered_rows", "rows whose offset does not exceed that of the row before"),
        _count("repeated_sequences", "rows with producer id, epoch and sequence of another row"),
        _count("uncommitted_rows", "rows within the offsets of a transaction that did not commit"),
        _count("torn_transactions", "committed transactions that the end of what is published cuts through"),
        _count("strange_timestamps", "rows whose timestamp is out of range"),
        _count("keys_sampled", "different keys that were hashed"),
        _count("keys_elsewhere", "those that the partitioner of earlier runs puts elsewhere"),
        _count("state_breaks", "differences between the state that was handed on and the one taken up"),
        _count("last_stable_before", "last stable offset of the run before"),
        _count("last_stable_offset", "last stable offset now"),
    ),
    key=("topic", "partition"),
)
