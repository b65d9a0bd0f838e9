"""Settings of sources: kind, location, topics and dates."""

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from spark_jobs.config.fields import (
    Count,
    DateLayout,
    Flag,
    Frozen,
    Location,
    Name,
    NotEmpty,
    Size,
    check_location,
    refuse,
)
from spark_jobs.kafka.formats.tier_files import KEY_REFERENCE, KEY_REFERENCE_FORM, TierLayout

TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
INTERNAL_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)
"""The coordinators' logs: staged with every source that has them, independent of its topic filter."""


class SourceKind(StrEnum):
    """What the objects are: batches as producers sent them, a copy of a broker's log directory, a live
    cluster, or what brokers uploaded to tiered storage.
    """

    CAPTURE = "capture"
    BROKER_LOG = "broker-log"
    CLUSTER = "cluster"
    TIERED = "tiered"


NOT_SUPPORTED = (
    "redpanda",
    "automq",
    "msk",
    "confluent",
    "warpstream",
    "bufstream",
    "iceberg",
    "aiven-iceberg",
)
"""Layouts that people ask for: their objects are not Kafka's segments, or not documented."""


def check_layout(value: Any) -> Any:
    """Names the layouts that are known and not supported, instead of calling them misspelt."""
    if isinstance(value, str) and value.lower() in NOT_SUPPORTED:
        raise refuse(
            f"{', '.join(TierLayout)}; objects of {value} are not read. Read the topics from the cluster or "
            "from copies of log directories"
        )
    return value


def check_key_reference(value: str, info: ValidationInfo) -> str:
    """Where a key is; a relative path is made absolute from the context's `base`."""
    if KEY_REFERENCE.fullmatch(value) is None:
        raise refuse(KEY_REFERENCE_FORM)
    how, _, where = value.partition(":")
    return value if how == "env" else f"file:{check_location(where, info)}"


ONLY_FOR = {
    "markers": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "on_gap": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "seed": (SourceKind.BROKER_LOG, "a broker's log knows its producers"),
    "bootstrap": (SourceKind.CLUSTER, "other kinds read objects, not brokers"),
    "security": (SourceKind.CLUSTER, "other kinds read objects, not brokers"),
    "max_bytes_per_second": (SourceKind.CLUSTER, "other kinds read objects, not brokers"),
    "max_partition_fetch_bytes": (SourceKind.CLUSTER, "other kinds read objects, not brokers"),
    "layout": (SourceKind.TIERED, "other objects have one layout"),
    "encryption_keys": (SourceKind.TIERED, "other objects are not encrypted by their writer"),
    "key_prefix": (SourceKind.TIERED, "other objects are in directories of their own"),
}
"""Settings of one kind of source, and why no other kind has them."""
IN_THE_LAKE = ("root", "dates", "lookback_days", "immutable")
"""Settings that a source of kind `cluster` does not have: its segments are written to the lake."""
FETCHED_DATES = "%Y-%m-%d"


class OnGap(StrEnum):
    """What a run does with an out-of-order batch: reject it like a broker, or park it until the gap fills."""

    REJECT = "reject"
    PARK = "park"


class TopicFilter(Frozen):
    """Topics by shell pattern; a topic is taken if some `include` and no `exclude` matches."""

    include: Annotated[tuple[str, ...], NotEmpty] = ("*",)
    exclude: tuple[str, ...] = ()

    def takes(self, topic: str) -> bool:
        """Whether `topic` passes; the coordinators' logs always do."""
        if topic in INTERNAL_TOPICS:
            return True
        return _matches(topic, self.include) and not _matches(topic, self.exclude)


BOOTSTRAP = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):\d{1,5}")


def check_bootstrap(value: Any) -> Any:
    """`a:9092,b:9092`, or a list of such → the addresses."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise refuse("host:port, or several, such as b-1.example:9092,b-2.example:9092")
    found = tuple(str(part).strip() for part in parts)
    if not all(map(BOOTSTRAP.fullmatch, found)):
        raise refuse("host:port, or several, such as b-1.example:9092,b-2.example:9092")
    return found


class SecurityProtocol(StrEnum):
    """`security.protocol` of Kafka's clients."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """`sasl.mechanism` of Kafka's clients."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class TokenSigner(StrEnum):
    """Who signs the token of OAUTHBEARER."""

    AWS_MSK_IAM = "aws-msk-iam"


AIRFLOW_PREFIX = "AIRFLOW_CONN_"


class SecuritySettings(Frozen):
    """How to connect to the brokers; names and passwords come from the environment, never from here.

    `environment` is the prefix of the variables that hold them (`<prefix>_USERNAME`, `<prefix>_PASSWORD`,
    `<prefix>_TOKEN`, `<prefix>_TOKEN_COMMAND`); default: `ONCEOVER_<NAME OF THE SOURCE>`. `connection` is the
    id of an Airflow connection instead. With `signer` each process signs a token of its own with its AWS
    credentials.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanism: SaslMechanism | None = None
    environment: Name | None = None
    connection: Name | None = None
    signer: TokenSigner | None = None
    ca_file: Location | None = None
    certificate_file: Location | None = None
    key_file: Location | None = None

    @property
    def connection_variable(self) -> str:
        """Airflow's name for the environment variable of `connection`."""
        return f"{AIRFLOW_PREFIX}{(self.connection or '').upper()}"

    @property
    def is_sasl(self) -> bool:
        return self.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @property
    def is_tls(self) -> bool:
        return self.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.is_sasl != (self.mechanism is not None):
            raise refuse("'mechanism' where protocol is SASL_PLAINTEXT or SASL_SSL, and only there")
        if not self.is_tls and (self.ca_file or self.certificate_file or self.key_file):
            raise refuse(
                "'ca_file', 'certificate_file' and 'key_file' only where protocol is SSL or SASL_SSL"
            )
        if sum(each is not None for each in (self.environment, self.connection, self.signer)) > 1:
            raise refuse("only one of 'environment', 'connection' and 'signer'")
        if self.signer is not None and self.mechanism is not SaslMechanism.OAUTHBEARER:
            raise refuse("'signer' only where mechanism is OAUTHBEARER")
        return self


class Source(Frozen):
    """One location to stage from.

    `dates` is the layout of the directories right below the root that spell a date; without it objects have
    no date. `lookback_days` bounds the search for late objects. `immutable` objects are read at the source
    instead of copied. With `markers`, control batches in a capture are the coordinator's. With `seed`, this
    broker's log of a captured partition is its past: on its first run the capture continues where that log
    ends, with the producers that it knew. `layout` says which plugin wrote to tiered storage;
    `encryption_keys` are references to RSA private keys by the id in its manifests, and `key_prefix` is what
    its directories have before the name of a topic.

    A cluster has no root of its own: `stage` fetches from the brokers at `bootstrap` into the lake, at most
    `max_bytes_per_second` in all tasks together, and `max_partition_fetch_bytes` at a time.
    """

    name: Name
    kind: SourceKind
    root: Location = Field(default="", validate_default=False)
    topics: TopicFilter = TopicFilter()
    dates: DateLayout | None = None
    lookback_days: Annotated[Count, Field(ge=0)] | None = None
    immutable: Flag = False
    markers: Flag = False
    on_gap: OnGap = OnGap.REJECT
    seed: Flag = False
    bootstrap: Annotated[tuple[str, ...], BeforeValidator(check_bootstrap)] = ()
    security: SecuritySettings = SecuritySettings()
    max_bytes_per_second: Annotated[Size, Field(ge=1024)] | None = None
    max_partition_fetch_bytes: Annotated[Size, Field(ge=1024, le=2**30)] = 4 * 2**20
    layout: Annotated[TierLayout | None, BeforeValidator(check_layout)] = None
    encryption_keys: dict[str, Annotated[str, AfterValidator(check_key_reference)]] = Field(
        default_factory=dict
    )
    key_prefix: str = ""

    @property
    def is_fetched(self) -> bool:
        """Whether `stage` fetches its objects into the lake, which is the only place that has them."""
        return self.kind is SourceKind.CLUSTER

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        for name, (kind, why) in ONLY_FOR.items():
            if name in self.model_fields_set and self.kind is not kind:
                raise refuse(f"'{name}' only where kind is {kind}: {why}")
        if self.kind is SourceKind.CLUSTER:
            return self._check_cluster()
        if not self.root:
            raise refuse(f"'root' where kind is {self.kind}: the directory or prefix of its objects")
        if self.lookback_days is not None and self.dates is None:
            raise refuse("'lookback_days' only together with 'dates'")
        if self.kind is SourceKind.TIERED:
            self._check_tiered()
        return self

    def _check_cluster(self) -> Self:
        for name in IN_THE_LAKE:
            if name in self.model_fields_set:
                raise refuse(f"no '{name}' where kind is {self.kind}: its segments are written to the lake")
        if not self.bootstrap:
            raise refuse(f"'bootstrap' where kind is {self.kind}: host:port of one or more brokers")
        return self

    def located(self, lake: str) -> Self:
        """The source with the place of its objects; one that is fetched has them in `lake`, by run date."""
        if not self.is_fetched:
            return self
        place = {"root": f"{lake}/sources/{self.name}", "dates": FETCHED_DATES, "immutable": True}
        return self.model_copy(update=place)

    def _check_tiered(self) -> None:
        if self.layout is None:
            raise refuse(f"'layout' where kind is {SourceKind.TIERED}: {', '.join(TierLayout)}")
        if self.dates is not None:
            raise refuse("no 'dates' where kind is tiered: brokers do not upload by date")
        if self.immutable and self.layout is TierLayout.AIVEN:
            raise refuse("no 'immutable' where layout is aiven: its chunks are decoded into the lake")
        if self.encryption_keys and self.layout is not TierLayout.AIVEN:
            raise refuse("'encryption_keys' only where layout is aiven: the others do not encrypt")
        if self.key_prefix and self.layout is not TierLayout.AIVEN:
            raise refuse("'key_prefix' only where layout is aiven: the others have none")
        if "/" in self.key_prefix:
            raise refuse("'key_prefix' without a slash: what is before the last one belongs to 'root'")


def _matches(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)
