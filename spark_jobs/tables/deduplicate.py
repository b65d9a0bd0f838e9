"""Tables of `deduplicate`: duplicates by business id, their counts, and the index of ids for the next run."""

from enum import StrEnum
from typing import Any

import pyarrow as pa

from spark_jobs.tables.contract import TIMESTAMP, Column, Contract, one_of
from spark_jobs.tables.materialise import HEADERS_TYPE


class DuplicateKind(StrEnum):
    """What a duplicate points to."""

    REPEATED = "repeated"
    """The same producer sent the id again within `SECONDS_REPEATED`: an application that sends twice."""
    RESENT = "resent"
    """The same producer sent the id again later than that, within a day: a job that was run again."""
    FAILOVER = "failover"
    """Another producer sent the id within a day: a failover without transactions."""
    REPLAYED = "replayed"
    """The id was sent again after more than a day: an old input was processed again."""


SECONDS_REPEATED = 60
"""The most seconds between the timestamps of two records of which an application sent the second at once."""


DUPLICATES = Contract(
    name="duplicates",
    file="duplicates/{file}.parquet",
    meaning="Records that are not published because an earlier one has the same business id.",
    columns=(
        Column("topic", pa.string(), "topic of the record"),
        Column("partition", pa.int32(), "partition of the record"),
        Column("offset", pa.int64(), "offset of the record"),
        Column("timestamp", TIMESTAMP, "timestamp of the record", True),
        Column("producer_id", pa.int64(), "producer of the record; -1 without a producer id"),
        Column("producer_epoch", pa.int32(), "its epoch; -1 without a producer id"),
        Column("transactional_id", pa.string(), "its transactional id, where known", True),
        Column("first_topic", pa.string(), "topic of the first record with the id, which is published"),
        Column("first_partition", pa.int32(), "partition of the first record"),
        Column("first_offset", pa.int64(), "offset of the first record"),
        Column("first_run_date", pa.date32(), "date of the run that published the first record"),
        Column("first_timestamp", TIMESTAMP, "timestamp of the first record", True),
        Column("first_producer_id", pa.int64(), "producer of the first record; -1 without a producer id"),
        Column("first_producer_epoch", pa.int32(), "its epoch; -1 without a producer id"),
        Column("first_transactional_id", pa.string(), "its transactional id, where known", True),
        Column("kind", pa.string(), one_of(DuplicateKind)),
        Column("id", pa.binary(), "the business id in its canonical form"),
        Column("key", pa.binary(), "the record's key, which no other table has", True),
        Column("value", pa.binary(), "the record's value, which no other table has", True),
        Column("headers", HEADERS_TYPE, "the record's headers, which no other table has"),
    ),
    key=("topic", "partition", "offset"),
)


DUPLICATE_FACTS = Contract(
    name="duplicate_facts",
    file="duplicate_facts.parquet",
    meaning="One row per partition with records in topics that have a business id.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("records", pa.int64(), "decoded records of the run that fit the topic's schema"),
        Column("null_ids", pa.int64(), "those without an id: null or missing; they are published"),
        Column("unusable_ids", pa.int64(), "those whose value has no usable id; they are published"),
        Column("duplicates", pa.int64(), "those that are not published: an earlier record has the same id"),
    ),
    key=("topic", "partition"),
)


DUPLICATE_COUNTS = Contract(
    name="duplicate_counts",
    file="duplicate_counts.parquet",
    meaning="The run's duplicates by topic, producer and kind.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("producer_id", pa.int64(), "the producer that sent the id again; -1 without a producer id"),
        Column("transactional_id", pa.string(), "its transactional id, where known", True),
        Column("kind", pa.string(), one_of(DuplicateKind)),
        Column("duplicates", pa.int64(), "records that are not published"),
    ),
    key=("topic", "producer_id", "transactional_id", "kind"),
)


class PieceKind(StrEnum):
    """What a file of an index holds."""

    RULE = "rule"
    """No file: the rule has an index, perhaps without any ids yet."""
    HASHES = "hashes"
    """Sorted hashes of ids, each with the date of its first record; every run reads them."""
    FIRSTS = "firsts"
    """The first records of one run date with their ids, by hash; read for hits only."""


ID_INDEX = Contract(
    name="id_index",
    file="id_index.parquet",
    meaning="The files of the index of business ids after the run, which the next run starts from.",
    columns=(
        Column("rule", pa.string(), "SHA-256 of the settings that the index was built with"),
        Column("kind", pa.string(), one_of(PieceKind)),
        Column("first_date", pa.date32(), "first run date whose ids it holds"),
        Column("last_date", pa.date32(), "last run date whose ids it holds"),
        Column("level", pa.int32(), "how many merges its ids have been through"),
        Column("number", pa.int32(), "place among the files of the same dates, which divide the hashes"),
        Column("digest", pa.string(), "SHA-256 of the file, which names it in the lake; empty for a rule"),
        Column("ids", pa.int64(), "ids in the file"),
        Column("bytes", pa.int64(), "size of the file"),
    ),
    key=("rule", "kind", "first_date", "number"),
)


HASH_SCHEMA = pa.schema([pa.field("hash", pa.int64(), False), pa.field("day", pa.int32(), False)])
"""A file of hashes; `day` is the run date of the first record, in days since 1970."""

_FIRST_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("hash", pa.int64(), False),
    pa.field("topic", pa.string(), False),
    pa.field("partition", pa.int32(), False),
    pa.field("offset", pa.int64(), False),
    pa.field("timestamp", pa.int64(), True),
    pa.field("producer_id", pa.int64(), False),
    pa.field("producer_epoch", pa.int32(), False),
    pa.field("transactional_id", pa.string(), True),
    pa.field("id", pa.binary(), False),
]
FIRST_SCHEMA = pa.schema(_FIRST_FIELDS)
"""A file of first records; `timestamp` is in microseconds since 1970."""
