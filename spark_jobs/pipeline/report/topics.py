"""The partitions and topics of a run: verdicts, records, offsets, lag, and the most frequent keys."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import Verdict, VerdictGroup
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.iceberg.catalog import NAME, catalog_properties
from spark_jobs.lake.iceberg.holdings import TopicTable
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.pipeline.report.run_tables import PLAIN, Producers, Row, RunTables, count_batches, merge
from spark_jobs.pipeline.report.site_files import NamedData, shard_of, topic_code
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.audit import PARTITION_FACTS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS

READERS = 8

Key = tuple[str, int]
COLUMNS = (
    "partition", "verdicts", "records", "start_offset", "end_offset", "producers", "lag", "undecided", "held",
)  # fmt: skip
PER_FILE = 20_000
PER_TOPIC = 100_000
SHOWN_KEYS = 5
SHOWN_CHARACTERS = 80
Skew = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition with batches in this run; `file` holds their verdicts, below the folder of admit."""

    topic: str
    partition: int
    file: str
    verdicts: dict[str, int]
    records: int
    start_offset: int
    end_offset: int
    producers: int
    lag: int
    undecided: int
    held: int

    @property
    def rows(self) -> int:
        return sum(self.verdicts.values())

    @property
    def troubled(self) -> int:
        """Batches that are neither accepted nor an overlap of copies."""
        return self.rows - sum(self.verdicts.get(verdict, 0) for verdict in PLAIN)

    def shown(self) -> list[Any]:
        """Its cells, in the order of `COLUMNS`."""
        return [
            self.partition, self.verdicts, self.records, self.start_offset, self.end_offset,
            self.producers, self.lag, self.undecided, self.held,
        ]  # fmt: skip


def partition_views(tables: RunTables, producers: Producers) -> list[PartitionView]:
    """The partitions of the run; counts producers with problems into `producers`."""
    facts = _by_partition(tables, Step.AUDIT, PARTITION_FACTS.file)
    resolved = _by_partition(tables, Step.RESOLVE, RESOLVED_PARTITIONS.file)
    admitted = _by_partition(tables, Step.ADMIT, ADMITTED_PARTITIONS.file)
    views = []
    with ThreadPoolExecutor(READERS) as readers:
        counted = readers.map(partial(_count, tables), admitted.values())
        for (key, row), (verdicts, found) in zip(admitted.items(), counted, strict=True):
            merge(producers, found)
            file = tables.key(Step.ADMIT, row["batches"])
            views.append(_view(row, facts.get(key, {}), resolved.get(key, {}), file, verdicts))
    return views


def _count(tables: RunTables, row: Row) -> tuple[dict[str, int], Producers]:
    """The verdicts of the partition's batches; if all were accepted, nothing is read."""
    if row["rows"] == row[VerdictGroup.ACCEPTED]:
        return ({Verdict.ACCEPTED.value: row["rows"]} if row["rows"] else {}), {}
    if not tables.has(Step.ADMIT, row["batches"]):
        return {}, {}  # of an expired run, whose table has them still
    name = str(TopicPartition(row["topic"], row["partition"]))
    return count_batches(tables.lake, tables.key(Step.ADMIT, row["batches"]), name)


def _view(row: Row, facts: Row, resolved: Row, file: str, verdicts: dict[str, int]) -> PartitionView:
    return PartitionView(
        topic=row["topic"],
        partition=row["partition"],
        file=file,
        verdicts=dict(verdicts),
        records=facts.get("rows", 0),
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        producers=row["producers"],
        lag=resolved.get("lag", 0),
        undecided=resolved.get("undecided", 0),
        held=resolved.get("held_batches", 0),
    )


def _by_partition(tables: RunTables, step: Step, path: str) -> dict[Key, Row]:
    return {(row["topic"], row["partition"]): row for row in tables.rows(step, path)}


def partition_files(run_id: str, views: list[PartitionView]) -> Iterator[NamedData]:
    """What the heat map shows: rows name their topic by its place in the list."""
    topics = sorted({view.topic for view in views})
    places = {topic: place for place, topic in enumerate(topics)}
    yield (
        f"run/{run_id}/partitions",
        {
            "columns": ["topic", *COLUMNS],
            "topics": [{"name": topic, "code": topic_code(topic)} for topic in topics],
            "rows": [[places[view.topic], *view.shown()] for view in views],
        },
    )


def key_skews(tables: RunTables) -> dict[str, Skew]:
    """By topic, from a sample of each file: how many keys were read and differ, and the most frequent."""
    counted: dict[str, Counter[bytes | None]] = defaultdict(Counter)
    for entry in tables.table_files(Step.MATERIALISE):
        topic = entry["topic"]
        if topic is not None and counted[topic].total() < PER_TOPIC:
            key = tables.key(Step.MATERIALISE, entry["file"])
            first = next(iter_rows(tables.lake, key, columns=["key"], rows=PER_FILE), None)
            counted[topic].update([] if first is None else first.column("key").to_pylist())
    return {topic: _skew(keys) for topic, keys in counted.items() if keys}


def _skew(keys: Counter[bytes | None]) -> Skew:
    without = keys.pop(None, 0)
    return {
        "sampled": keys.total() + without,
        "without": without,
        "distinct": len(keys),
        "top": [[key_text(key), count] for key, count in sorted(keys.most_common(SHOWN_KEYS), key=_order)],
    }


def _order(item: tuple[bytes | None, int]) -> tuple[int, bytes]:
    return -item[1], item[0] or b""


def key_text(key: bytes | None) -> str:
    """A key for people: as text if it is one, else its bytes in hexadecimal."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        text = f"0x{(key or b'').hex()}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def topic_rows(views: Sequence[PartitionView]) -> list[dict[str, Any]]:
    """One row per topic with batches in this run."""
    return [_row(topic, parts) for topic, parts in sorted(_by_topic(views).items())]


def _row(topic: str, parts: Sequence[PartitionView]) -> dict[str, Any]:
    verdicts: Counter[str] = Counter()
    for view in parts:
        verdicts.update(view.verdicts)
    return {
        "name": topic,
        "code": topic_code(topic),
        "partitions": len(parts),
        "batches": verdicts.total(),
        "verdicts": dict(verdicts),
        "records": sum(view.records for view in parts),
        "lag": sum(view.lag for view in parts),
        "held": sum(view.held for view in parts),
    }


def topic_files(run_id: str, views: Sequence[PartitionView], skews: dict[str, Skew]) -> Iterator[NamedData]:
    """The sums in one file; partitions and keys in a file per shard, for the page of one topic."""
    yield f"run/{run_id}/topics", topic_rows(views)
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for topic, parts in _by_topic(views).items():
        code = topic_code(topic)
        shards[shard_of(code)][code] = {
            "name": topic,
            "columns": COLUMNS,
            "partitions": [view.shown() for view in parts],
            "keys": skews.get(topic),
        }
    for shard, topics in shards.items():
        yield f"run/{run_id}/topic/{shard}", topics


def _by_topic(views: Sequence[PartitionView]) -> dict[str, list[PartitionView]]:
    topics: dict[str, list[PartitionView]] = defaultdict(list)
    for view in views:
        topics[view.topic].append(view)
    return topics


# How to query the table of a topic: text to paste, for each engine.

PER_PARTITION = "SELECT partition, count(*), max(timestamp) FROM"
SHOWN = ("type", "uri", "warehouse")
"""Of a catalog's properties: others may be secrets, and come from the environment."""


def queries(settings: Settings, table: TopicTable) -> dict[str, str]:
    """The queries by engine."""
    return {
        "python": (
            f"{_open_catalog(settings)}"
            f"records = catalog.load_table({table.name!r}).scan().to_duckdb('records')\n"
            f"records.sql('{PER_PARTITION} records GROUP BY partition').show()"
        ),
        "duckdb": (
            "INSTALL iceberg; LOAD iceberg;\n"
            f"{PER_PARTITION} iceberg_scan({_quoted(table.metadata)}) GROUP BY partition;"
        ),
        "spark": f"{PER_PARTITION} {NAME}.{table.name} GROUP BY partition",
    }


SELECT = "SELECT"
FOUND = ("partition", "offset", "timestamp", "value")


def find_key(settings: Settings, table: TopicTable) -> dict[str, tuple[str, str]]:
    """Queries for the records of one key: each is the text before and after the key in hexadecimal."""
    python = (
        f"{_open_catalog(settings)}from pyiceberg.expressions import EqualTo\n"
        f"table = catalog.load_table({table.name!r})\nkey = bytes.fromhex('"
    )
    scan = f"table.scan(EqualTo('key', key), selected_fields={FOUND!r})"
    columns = ", ".join(f"`{name}`" for name in FOUND)
    return {
        "find_in_python": (python, f"')\nprint({scan}.to_arrow().to_pylist())"),
        "find_in_spark": (f"{SELECT} {columns} FROM {NAME}.{table.name} WHERE key = unhex('", "')"),
    }


def _open_catalog(settings: Settings) -> str:
    """The lines of Python that open the catalog."""
    properties = catalog_properties(settings)
    arguments = ", ".join(f"{name}={properties[name]!r}" for name in SHOWN if name in properties)
    return f"from pyiceberg.catalog import load_catalog\ncatalog = load_catalog({NAME!r}, {arguments})\n"


def table_view(settings: Settings, table: TopicTable) -> tuple[str, dict[str, Any]]:
    """What a topic's page shows of its table, by the topic's code: only what the next run does not change."""
    texts = queries(settings, table)
    shown = {"name": table.name, "location": table.location}
    found = {"python": texts["python"], "spark": texts["spark"], **find_key(settings, table)}
    return topic_code(table.topic), {**shown, **found}


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
