"""Tables of `audit`: facts that expectations judge, and their results."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

SOURCE_FACTS = Contract(
    name="source_facts",
    file="source_facts.parquet",
    meaning="One row per source of the configuration.",
    columns=(
        Column("source", pa.string(), "name of the source"),
        Column("objects", pa.int64(), "objects of the source in the run's manifest"),
        Column("new_objects", pa.int64(), "those of them that no earlier run has read with the same bytes"),
        Column("is_empty", pa.int64(), "1 if the source has no object, though it should have some"),
        Column("is_unrecognised", pa.int64(), "1 if the source has objects, but none of a partition"),
        Column("is_stale", pa.int64(), "1 if the source brings nothing new"),
        Column("vanished_partitions", pa.int64(), "partitions that the copy of the last run held"),
        Column("unreadable_objects", pa.int64(), "objects of logs that were set aside as denied or damaged"),
        Column("unreadable_captures", pa.int64(), "the same of captures"),
        Column("remark", pa.string(), "what was found and what is expected; empty if all is well"),
    ),
    key=("source",),
)


def _count(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning)


PARTITION_FACTS = Contract(
    name="partition_facts",
    file="partition_facts.parquet",
    meaning="One row per partition ever seen, counted again from the files that the run has written.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        _count("batches_in", "rows of the run's index, and inherited parked batches"),
        _count("verdicts", "batches with a verdict"),
        _count("accepted", "batches taken"),
        _count("duplicate", "retries of batches that were there already"),
        _count("overlap", "batches that an earlier run or another copy of the log had brought"),
        _count("rejected", "batches refused"),
        _count("corrupt", "stretches of bytes that are not a valid batch"),
        _count("held", "parked batches"),
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
        _count("replayed_records", "replayed records of earlier runs"),
        _count("rows", "rows written to the topic's table"),
        _count("disordered_rows", "rows whose offset does not exceed that of the row before"),
        _count("repeated_sequences", "rows with producer id, epoch and sequence of another row"),
        _count("uncommitted_rows", "rows within the offsets of a transaction that did not commit"),
        _count("torn_transactions", "committed transactions that the end of what is published cuts through"),
        _count("strange_timestamps", "rows whose timestamp is out of range"),
        _count("keys_sampled", "different keys that were hashed"),
        _count("keys_elsewhere", "those that the partitioner of earlier runs puts elsewhere"),
        _count(
            "state_breaks",
            "differences between the stored state of the previous run and the state at the start",
        ),
        _count("last_stable_before", "last stable offset of the run before"),
        _count("last_stable_offset", "last stable offset now"),
    ),
    key=("topic", "partition"),
)


ID_FACTS = Contract(
    name="id_facts",
    file="id_facts.parquet",
    meaning="One row per partition with records in topics that have a business id.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        _count("records", "records that `deduplicate` read"),
        _count("without_id", "those without an id or without a usable one"),
        _count("rows", "rows written to the topic's table"),
        _count("duplicates", "rows written to the table duplicates"),
    ),
    key=("topic", "partition"),
)


ANSWER_FACTS = Contract(
    name="answer_facts",
    file="answer_facts.parquet",
    meaning="One row per partition whose capture has the broker's answers.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        _count("answers", "batches with an answer of the broker"),
        _count("unanswered", "batches that the broker did not answer, as far as the capture shows"),
        _count("differing", "those of the answered whose verdict is not the broker's answer"),
        Column("remark", pa.string(), "the first difference; empty without any"),
    ),
    key=("topic", "partition"),
)


ANSWER_DIFFERENCES = Contract(
    name="answer_differences",
    file="answer_differences.parquet",
    meaning="One row per batch whose verdict is not the broker's answer; at most 10,000 per partition.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("source", pa.string(), "name of the source"),
        Column("path", pa.string(), "the answers' object in the source"),
        Column("position", pa.int64(), "where the batch begins in the capture object"),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "its producer's epoch"),
        Column("base_sequence", pa.int32(), "its first sequence"),
        Column("verdict", pa.string(), "what became of the batch here"),
        Column("kafka_error", pa.string(), "the error of this verdict; NONE if there is none"),
        Column("broker_error", pa.string(), "the error that the broker answered; NONE if it took the batch"),
        Column("broker_offset", pa.int64(), "the offset that the broker answered, -1 for none"),
    ),
    key=("topic", "partition", "source", "path", "position"),
)


TRANSACTION_FACTS = Contract(
    name="transaction_facts",
    file="transaction_facts.parquet",
    meaning="One row per file of the table `transactions`, which is divided by producer id.",
    columns=(
        Column("file", pa.string(), "path below the folder of the step resolve"),
        Column("transactions", pa.int64(), "transactions in the file"),
        Column("batches", pa.int64(), "batches of the transactions"),
        Column("undecided_batches", pa.int64(), "those whose outcome the sources do not determine"),
        Column("torn_transactions", pa.int64(), "those that are published on some of their partitions only"),
        Column("shared_producer_ids", pa.int64(), "producer ids that several transactional ids claim"),
        Column("examples", pa.string(), "some of both; empty without any"),
    ),
    key=("file",),
)


TOPIC_VOLUMES = Contract(
    name="topic_volumes",
    file="topic_volumes.parquet",
    meaning="One row per topic, with zeros where a run brought nothing.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("batches", pa.int64(), "batches with a verdict"),
        Column("duplicate", pa.int64(), "retries of batches that were there already"),
        Column("overlap", pa.int64(), "batches that an earlier run or another copy of the log had brought"),
        Column("rejected", pa.int64(), "batches refused"),
        Column("out_of_order", pa.int64(), "batches whose sequence left a gap"),
        Column("corrupt", pa.int64(), "stretches of bytes that are not a valid batch"),
        Column("records", pa.int64(), "rows written to the topic's table"),
    ),
    key=("topic",),
)


ALL_PRODUCERS = -1

TOPIC_PARTITIONERS = Contract(
    name="topic_partitioners",
    file="topic_partitioners.parquet",
    meaning="One row per topic whose keys identify a partitioner, or per producer where producers differ.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("producer_id", pa.int64(), "the producer; -1 for all producers of the topic"),
        Column("partitioner", pa.string(), "murmur2, consistent, fnv1a, or none if none of them fits"),
        Column("partition_count", pa.int64(), "partitions among which it chooses"),
    ),
    key=("topic", "producer_id"),
)


EXPECTATION_RESULTS = Contract(
    name="expectation_results",
    file="expectation_results.parquet",
    meaning="Every expectation of every audited run: whether it was met, and if not, where.",
    columns=(
        Column("run_id", pa.string(), "the run that was audited"),
        Column("suite", pa.string(), "the table that the expectation is about"),
        Column("expectation", pa.string(), "name of the expectation"),
        Column("severity", pa.string(), "critical: a failure stops the run before publish; warning; or off"),
        Column("sentence", pa.string(), "what is expected, for people"),
        Column("success", pa.bool_(), "whether it was met; null if it was off, and not evaluated", True),
        Column("observed", pa.string(), "what was found"),
        Column("expected", pa.string(), "what the numbers are held against"),
        Column("examples", pa.list_(pa.string()), "some of the places where it was not met"),
    ),
    key=("run_id", "suite", "expectation"),
)
