"""The events of a `replies.jsonl` as values, in wire order."""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.kafka.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has: its place in the recording, its kind and, for requests, the API's version."""

    index: int
    kind: str
    api_version: int = -1
    label: str = ""

    @property
    def name(self) -> str:
        """Its name in messages."""
        label = f" ({self.label})" if self.label else ""
        return f"event {self.index} {self.kind}{label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta(Event):
    """The broker's settings; `topics` and `broker` are empty if the generator did not record them."""

    topics: Mapping[str, Mapping[str, Any]]
    segment_bytes: int | None
    broker: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePart:
    """One partition of a produce request, the batch as sent, and the fields of the broker's reply to it."""

    topic_partition: TopicPartition
    records: bytes
    reply: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce(Event):
    acks: int
    transactional_id: str | None
    parts: tuple[ProducePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRequest(Event):
    """InitProducerId, AddPartitionsToTxn or EndTxn; the request is in its frame."""

    request: bytes
    reply: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnState(Event):
    """The reply to DescribeTransactions for one transactional id."""

    transactional_id: str
    reply: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Event):
    clean: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords(Event):
    topic_partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep(Event):
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark(Event):
    """An event that asks nothing of a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Event):
    """An event of a kind that this replay does not know."""


REMARKS = frozenset({"scenario", "open_at_end"})
COORDINATOR_REQUESTS = frozenset({"init_producer_id", "add_partitions_to_txn", "end_txn"})
CLEAN_RESTART = "clean"


def read_events(path: Path) -> tuple[Event, ...]:
    """All events of one file, one JSON object per line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return tuple(_readable_event(number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _readable_event(number: int, line: str) -> Event:
    """An event, or one of an unknown kind if the line lacks a field of its kind."""
    try:
        return _event(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        return Unknown(index=number, kind=f"unreadable in line {number}: {type(error).__name__} {error}")


def _event(raw: Mapping[str, Any]) -> Event:
    common: dict[str, Any] = {
        "index": raw.get("i", -1),
        "kind": raw.get("t", "without a kind"),
        "api_version": raw.get("api_version", -1),
        "label": raw.get("label") or "",
    }
    kind = common["kind"]
    if kind in COORDINATOR_REQUESTS:
        return CoordinatorRequest(request=b64decode(raw["request_b64"]), reply=raw["reply"], **common)
    if kind in REMARKS:
        return Remark(**common)
    read = {
        "meta": _meta,
        "produce": _produce,
        "txn_state": _txn_state,
        "restart": _restart,
        "delete_records": _delete_records,
        "sleep": _sleep,
    }.get(kind)
    return Unknown(**common) if read is None else read(raw, common)


def _meta(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    settings = (line.split("=", 1) for line in (raw.get("broker") or "").splitlines() if "=" in line)
    return Meta(
        topics=raw.get("topics") or {},
        segment_bytes=raw.get("segment_bytes"),
        broker={name.strip(): value.strip() for name, value in settings},
        **common,
    )


def _produce(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    parts = tuple(
        ProducePart(
            topic_partition=TopicPartition(part["topic"], part["partition"]),
            records=b64decode(part["records_b64"] or ""),
            reply=part["reply"],
        )
        for part in raw["parts"]
    )
    return Produce(acks=raw["acks"], transactional_id=raw["transactional_id"], parts=parts, **common)


def _txn_state(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    reply = {name: raw[name] for name in ("error_code", "state", "producer_id", "producer_epoch")}
    return TxnState(transactional_id=raw["tid"], reply=reply, **common)


def _restart(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    return Restart(clean=raw["mode"] == CLEAN_RESTART, **common)


def _delete_records(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    return DeleteRecords(
        topic_partition=TopicPartition(raw["topic"], raw["partition"]), offset=raw["offset"], **common
    )


def _sleep(raw: Mapping[str, Any], common: Mapping[str, Any]) -> Event:
    return Sleep(milliseconds=raw["ms"], **common)
