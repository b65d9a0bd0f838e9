"""The settings as frozen values: every key, its default and its meaning.

Kafka's own settings keep Kafka's names, snake-cased, and Kafka's defaults.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from spark_jobs.config.audit import AuditSettings
from spark_jobs.config.canonical import digest_of
from spark_jobs.config.dedup import KEY, DedupSettings, IdRule, rules_of
from spark_jobs.config.fields import (
    Count,
    Duration,
    Endpoint,
    Frozen,
    Location,
    Memory,
    Name,
    NotEmpty,
    Size,
    refuse,
)
from spark_jobs.config.sources import Source
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import TimestampType
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import topic_of


class CatalogKind(StrEnum):
    """`sqlite` is a file in the lake; the others are services that the platform runs."""

    SQLITE = "sqlite"
    SQL = "sql"
    REST = "rest"
    GLUE = "glue"


class CatalogSettings(Frozen):
    """An Iceberg catalog.

    `topics` is the namespace of the tables of topics, `namespace` that of Onceover's own. `warehouse` is
    where tables keep their metadata; default: the lake. `properties` are passed to the catalog unchanged.
    """

    kind: CatalogKind = CatalogKind.SQLITE
    uri: str | None = None
    warehouse: Location | None = None
    topics: Name = "topics"
    namespace: Name = "onceover"
    properties: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.topics == self.namespace:
            raise refuse("'topics' and 'namespace' apart: a topic may be called like one of our own tables")
        if self.kind is CatalogKind.SQLITE and self.uri is not None:
            raise refuse("'uri' only where kind is not sqlite: that one is a file in the lake")
        if urlsplit(self.uri or "").password is not None:  # here, so that no message repeats it
            raise refuse("a 'uri' without a password: PYICEBERG_CATALOG__ONCEOVER__URI may hold one")
        return self


ADDRESS = re.compile(r"([A-Za-z0-9.-]+):(\d{1,5})")
LARGEST_PORT = 65_535


class Address(Frozen):
    """The address of a metrics collector."""

    host: str
    port: int


def check_address(value: Any) -> Any:
    """`host:port` → its parts."""
    if isinstance(value, Address):
        return value
    match = ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[2]) <= LARGEST_PORT:
        raise refuse("host:port, such as 127.0.0.1:8125")
    return Address(host=match[1], port=int(match[2]))


def check_file(value: str, info: ValidationInfo) -> str:
    """A path, made absolute from the context's `base`; the node exporter reads files that end with .prom."""
    if not value.endswith(".prom") or "://" in value or "\0" in value:
        raise refuse("a path on this machine that ends with .prom")
    return str(Path((info.context or {}).get("base", Path.cwd()), value).resolve())


class MetricsSettings(Frozen):
    """`textfile` is for Prometheus' node exporter, `statsd` for a StatsD server; neither unless named."""

    textfile: Annotated[str, AfterValidator(check_file)] | None = None
    statsd: Annotated[Address, BeforeValidator(check_address)] | None = None


Days = Annotated[Count, Field(ge=1)]


class RetentionSettings(Frozen):
    """Days before the newest final run; without a number, everything of that kind is kept.

    `runs_days`: outputs of the steps of a run. `snapshots_days`: tags and snapshots of published runs, and
    files that only they reference. `staged_days`: copies of source objects, and segments that were fetched
    from live clusters. Data that the chain, held and parked batches, the tables or the undecided quarantine
    need is kept at any age.
    """

    runs_days: Days | None = None
    snapshots_days: Days | None = None
    staged_days: Days | None = None


class ValueFormat(StrEnum):
    """`bytes` are published as they are; of `json` the declared fields become columns of their own."""

    BYTES = "bytes"
    JSON = "json"


class ValueType(StrEnum):
    """Type of a field: what JSON can hold, in the size that a table has for it."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"


TAKEN = frozenset(
    {
        "partition", "offset", "timestamp", "timestamp_type", "timestamp_out_of_range", "key", "value",
        "headers", "producer_id", "producer_epoch", "sequence", "transactional_id",
        "partition_leader_epoch", "run_date",
    }
)  # fmt: skip
"""Columns that every topic's table has."""


def check_fields(fields: dict[str, ValueType]) -> dict[str, ValueType]:
    """Column names that do not collide with the table's own columns, even if case is folded."""
    for name in fields:
        if not name.isidentifier() or not name.isascii():
            raise refuse("fields named by letters, digits and '_', beginning with a letter or '_'")
        if name.lower() in TAKEN:
            raise refuse(f"fields not called like a column that every table has, such as '{name}'")
    if len({name.lower() for name in fields}) < len(fields):
        raise refuse("fields whose names differ by more than case")
    return fields


INT32_MAX = 2**31 - 1
DAY_MS = 86_400_000
MIB = 2**20


class S3Settings(Frozen):
    """How to reach an S3-compatible store; credentials come from the AWS chain, never from here."""

    endpoint_url: Endpoint | None = None
    region: str = "us-east-1"
    addressing: Literal["auto", "path", "virtual"] = "auto"
    max_attempts: Annotated[Count, Field(ge=1, le=20)] = 5
    connect_timeout_s: Annotated[Count, Field(ge=1)] = 10
    read_timeout_s: Annotated[Count, Field(ge=1)] = 60
    part_bytes: Annotated[Size, Field(ge=5 * MIB)] = 16 * MIB


class CleanupPolicy(StrEnum):
    """A compacted topic refuses records without a key (facts §2.11)."""

    DELETE = "delete"
    COMPACT = "compact"


class OnRecreate(StrEnum):
    """What a run does when a topic was deleted and recreated: stop, or give the new log its own table."""

    STOP = "stop"
    NEW_TABLE = "new_table"


class OnMissing(StrEnum):
    """What a run does with batches after offsets that no copy has and that nothing explains.

    `hold`: the partition is published up to the gap, and batches after it are held until a copy has the
    missing offsets. `publish_past`: the partition is published without them.
    """

    HOLD = "hold"
    PUBLISH_PAST = "publish_past"


class TopicSettings(Frozen):
    """Topic configuration that a broker would have; the keys of `topics` are names or shell patterns.

    `on_recreate` is what a run does when copies have another topic id than those of earlier runs. `dedup`
    declares the business id of the records; without it, no record is a duplicate by its id. `freshness` is
    how old, in seconds, the newest record may be: the dashboard and an alert show topics that are older.
    """

    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    cleanup_policy: CleanupPolicy = CleanupPolicy.DELETE
    gaps: OnMissing = OnMissing.HOLD
    value: ValueFormat = ValueFormat.BYTES
    fields: Annotated[dict[str, ValueType], AfterValidator(check_fields)] = Field(default_factory=dict)
    required: tuple[str, ...] = ()
    on_recreate: OnRecreate = OnRecreate.STOP
    dedup: DedupSettings | None = None
    freshness: Duration | None = None

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.value is not ValueFormat.JSON and (self.fields or self.required):
            raise refuse("'fields' and 'required' only where value is json")
        if self.value is ValueFormat.JSON and not self.fields:
            raise refuse("'fields' where value is json: they become columns")
        if set(self.required) - set(self.fields):
            raise refuse("only declared fields among 'required'")
        return self

    @property
    def is_compacted(self) -> bool:
        return self.cleanup_policy is CleanupPolicy.COMPACT

    @model_validator(mode="after")
    def _check_id(self) -> Self:
        if self.is_compacted and self.dedup is not None and self.dedup.id == KEY:
            raise refuse(
                "not 'id: key' of 'dedup' where cleanup_policy is compact: later records of a key are updates"
            )
        return self


class Limits(Frozen):
    """Bounds on memory and sizes; what exceeds a limit per batch is `corrupt`, never a failed run.

    `range_bytes` is how much of an object one task reads at a time, `parked_batches` how many batches of a
    partition may wait for a gap to fill. `stage_threads` is how many objects each task of `stage` brings in
    at a time.
    """

    max_batch_bytes: Annotated[Size, Field(ge=61, le=INT32_MAX)] = 100 * MIB
    decompressed_bytes_per_batch: Annotated[Size, Field(ge=1, le=INT32_MAX)] = 256 * MIB
    records_per_batch: Annotated[Count, Field(ge=1, le=INT32_MAX)] = 10_000_000
    headers_per_record: Annotated[Count, Field(ge=0, le=INT32_MAX)] = 10_000
    parked_batches: Annotated[Count, Field(ge=0)] = 1_000_000
    range_bytes: Annotated[Size, Field(ge=4096)] = 256 * MIB
    segment_bytes: Annotated[Size, Field(ge=MIB, le=INT32_MAX)] = 256 * MIB
    file_bytes: Annotated[Size, Field(ge=MIB)] = 256 * MIB
    stage_threads: Annotated[Count, Field(ge=1, le=256)] = 8

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.segment_bytes < self.max_batch_bytes:
            raise refuse("'segment_bytes' of at least 'max_batch_bytes': a segment holds whole batches")
        return self

    @property
    def protocol(self) -> RecordLimits:
        """The part that decoding needs."""
        return RecordLimits(
            decompressed_bytes=self.decompressed_bytes_per_batch,
            records_per_batch=self.records_per_batch,
            headers_per_record=self.headers_per_record,
        )


class KafkaSettings(Frozen):
    """Broker settings that change verdicts (facts §0).

    `cached_batches` is the window of duplicate detection: fixed in Kafka, named here so that it is visible.
    `transaction_max_timeout_ms` is how long a transaction can run whose coordinator's log does not know its
    own timeout, `transaction_state_partitions` how many partitions __transaction_state has at the brokers.
    `clock_skew_ms` is how much the clocks of producers and coordinator may differ.
    """

    cached_batches: Literal[5] = 5
    producer_id_expiration_ms: Annotated[Count, Field(ge=1)] = DAY_MS
    transaction_max_timeout_ms: Annotated[Count, Field(ge=1, le=INT32_MAX)] = 900_000
    transaction_state_partitions: Annotated[Count, Field(ge=1, le=10_000)] = 50
    transaction_version: TransactionVersion = TransactionVersion.TV2
    clock_skew_ms: Annotated[Count, Field(ge=0)] = 1000


class Publish(StrEnum):
    """How far a run publishes a partition.

    `read_committed`: each partition on its own, up to its last stable offset, so that a run may publish one
    partition's part of a transaction before another's. `whole_transactions`: no transaction is torn; while
    one of its partitions is held back by an older open transaction, all of its partitions wait.
    """

    READ_COMMITTED = "read_committed"
    WHOLE_TRANSACTIONS = "whole_transactions"


class SparkSettings(Frozen):
    """Where the steps run; this changes the speed of a run, never its result.

    `master` is one of Spark's, or `sc://host:port` for a Spark Connect server. `shared_paths` states that all
    executors of a remote master see the paths of lake and sources, as on a network file system.
    """

    master: str = "local[*]"
    shared_paths: bool = False
    app_name: str = "onceover"
    driver_memory: Memory = "2g"
    conf: dict[str, str] = Field(default_factory=dict)


class Settings(Frozen):
    """The whole configuration of one lake."""

    lake: Location
    sources: Annotated[tuple[Source, ...], NotEmpty]
    s3: S3Settings = S3Settings()
    topics: dict[str, TopicSettings] = Field(default_factory=dict)
    limits: Limits = Limits()
    kafka: KafkaSettings = KafkaSettings()
    publish: Publish = Publish.READ_COMMITTED
    spark: SparkSettings = SparkSettings()
    catalog: CatalogSettings = CatalogSettings()
    audit: AuditSettings = AuditSettings()
    retention: RetentionSettings = RetentionSettings()
    metrics: MetricsSettings = MetricsSettings()

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        for problem in (
            *_repeated_names(self.sources),
            *_ambiguous_connections(self.sources),
            *_lake_overlaps(self.lake, self.sources),
            *self._scope_problems(),
        ):
            raise refuse(problem)
        located = tuple(source.located(self.lake) for source in self.sources)
        object.__setattr__(self, "sources", located)  # frozen for everyone else
        return self

    def _scope_problems(self) -> Iterator[str]:
        """Topics whose ids are compared with each other declare the same id."""
        for declared in (topic.dedup for topic in self.topics.values() if topic.dedup is not None):
            for name in declared.scope if isinstance(declared.scope, tuple) else ():
                if self.topic(name).dedup != declared:
                    yield f"the same 'dedup' for all topics of its scope ('{name}' has another one)"

    @property
    def has_dedup(self) -> bool:
        """Whether any topic has a business id, so that a run has the step `deduplicate`."""
        return any(topic.dedup is not None for topic in self.topics.values())

    def id_rules(self, logs: Iterable[str]) -> list[tuple[IdRule, list[str]]]:
        """The rules of `dedup` that concern any of these logs, each with its logs."""
        return list(rules_of((log, topic_of(log), self.topic(log).dedup) for log in logs))

    def topic(self, name: str) -> TopicSettings:
        """Settings of one topic: by its name, else by the first pattern that matches, else the defaults."""
        name = topic_of(name)
        if name in self.topics:
            return self.topics[name]
        matching = (settings for pattern, settings in self.topics.items() if fnmatchcase(name, pattern))
        return next(matching, TopicSettings())

    def source(self, name: str) -> Source:
        """The source of that name; a manifest names no other."""
        return next(source for source in self.sources if source.name == name)

    @property
    def digest(self) -> str:
        """Covers all settings that decide the result of a run, and none about where and how fast it runs.

        So the same run has the same run id on a laptop and on a cluster. What to stage, and `on_recreate`,
        are not part of it: the manifest has their effect. `audit` and `freshness` are not part of it, because
        they judge a run and do not change what it holds.
        """
        return digest_of(self._decisive())

    def _as_before(self) -> set[str]:
        """Newer keys of `kafka` at their default: the digest leaves them out, so that it stays the same."""
        newer = {"transaction_state_partitions"}
        default = KafkaSettings()
        return {name for name in newer if getattr(self.kafka, name) == getattr(default, name)}

    def _decisive(self) -> dict[str, Any]:
        by_name = sorted(self.sources, key=lambda source: source.name)
        return {
            "sources": [
                source.model_dump(mode="json", include={"name", "kind", "markers", "on_gap", "seed"})
                for source in by_name
            ],
            "topics": _decisive_topics(self.topics),
            "limits": self.limits.model_dump(exclude={"range_bytes", "stage_threads"}),
            "kafka": self.kafka.model_dump(mode="json", exclude=self._as_before()),
            "publish": self.publish.value,
        }


WILDCARD = re.compile(r"[*?[]")


def _decisive_topics(topics: Mapping[str, TopicSettings]) -> list[list[Any]]:
    """The entries of `topics`; not one that was added for an objective alone and changes nothing else."""
    decisive = {name: _decisive_keys(settings) for name, settings in topics.items()}
    return [
        [name, keys]
        for name, keys in decisive.items()
        if topics[name].model_fields_set != {"freshness"}
        or any(keys != other for other in _without(name, decisive))
    ]


def _without(name: str, decisive: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisive keys that topics of an entry may have without it."""
    patterns = [each for each in decisive if WILDCARD.search(each)]
    default = _decisive_keys(TopicSettings())
    if name in patterns:
        later = patterns[patterns.index(name) + 1 :]
        return [*(decisive[pattern] for pattern in later), default]
    matching = (decisive[pattern] for pattern in patterns if fnmatchcase(name, pattern))
    return [next(matching, default)]


def _decisive_keys(topic: TopicSettings) -> dict[str, Any]:
    return topic.model_dump(mode="json", exclude=_undecisive(topic))


def _undecisive(topic: TopicSettings) -> set[str]:
    """Keys of a topic that the digest leaves out; `dedup` where it is not set, so that it stays the same."""
    never = {"on_recreate", "freshness"}
    return never if topic.dedup is not None else {*never, "dedup"}


def _repeated_names(sources: tuple[Source, ...]) -> Iterator[str]:
    counted = Counter(source.name for source in sources)
    yield from (f"unique source names ('{name}' appears twice)" for name, n in counted.items() if n > 1)


def _ambiguous_connections(sources: tuple[Source, ...]) -> Iterator[str]:
    """Airflow's variable of a connection has its name in capitals: another case would get another's login."""
    names = sorted({source.security.connection for source in sources if source.security.connection})
    counted = Counter(name.upper() for name in names)
    yield from (
        f"connections that differ in more than capitals ('{name}' is like another)"
        for name in names
        if counted[name.upper()] > 1
    )


def _lake_overlaps(lake: str, sources: tuple[Source, ...]) -> Iterator[str]:
    """A lake inside a source would stage itself; a source inside the lake could be overwritten."""
    for source in sources:
        if source.is_fetched:
            continue
        ours, theirs = PurePosixPath(lake), PurePosixPath(source.root)
        if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
            yield f"a lake apart from every source (source '{source.name}' overlaps with it)"
