"""What real clients see: topics created, leaders awaited, records and offsets read back."""

import base64
import json
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.pipeline.materialise.truth import in_order

TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}


def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def create_topics(address: str, topics: dict[str, tuple[int, str]], segment_bytes: int) -> None:
    new = [
        NewTopic(
            name,
            num_partitions=count,
            replication_factor=1,
            config={
                "message.timestamp.type": kind,
                "internal.segment.bytes": str(segment_bytes),
                "retention.ms": "-1",
            },
        )
        for name, (count, kind) in topics.items()
    ]
    client = admin(address)
    for future in client.create_topics(new).values():
        future.result(30)
    wait_for_leaders(address)


def wait_for_leaders(address: str) -> None:
    """Until every partition has a leader that lives."""
    client = admin(address)
    for _ in range(300):
        metadata = client.list_topics(timeout=30)
        partitions = [p for topic in metadata.topics.values() for p in topic.partitions.values()]
        if partitions and all(p.leader in metadata.brokers for p in partitions):
            return
        time.sleep(0.1)
    raise TimeoutError("partitions without a leader")


def consumer(address: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "truth",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def watermarks(address: str, tp: TopicPartition, isolation: str) -> tuple[int, int]:
    """Log start and end as `isolation` shows them: the high watermark, or the last stable offset."""
    client = consumer(address, isolation)
    low, high = client.get_watermark_offsets(tp, timeout=30)
    client.close()
    return int(low), int(high)


def _b64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _line(message: Any) -> str:
    kind, timestamp = message.timestamp()
    headers = [[name, _b64(value)] for name, value in message.headers() or []]
    return json.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": timestamp,
            "timestamp_type": TIMESTAMP_TYPES[kind],
            "key": _b64(message.key()),
            "value": _b64(message.value()),
            "headers": headers,
        }
    )


def read_all(address: str, tp: TopicPartition, isolation: str) -> list[str]:
    """Every record of one partition, from the log start until the end that `isolation` shows."""
    start, _ = watermarks(address, tp, isolation)
    client = consumer(address, isolation)
    client.assign([TopicPartition(tp.topic, tp.partition, start)])
    lines: list[str] = []
    while (message := client.poll(30)) is not None and (error := message.error()) is None:
        lines.append(_line(message))
    client.close()
    if message is None or error is None or error.code() != KafkaError._PARTITION_EOF:
        raise TimeoutError(f"{tp}: read no further than {lines[-1:]}: {message and message.error()}")
    return lines


def _offsets(address: str, tp: TopicPartition) -> dict[str, int]:
    log_start_offset, high_watermark = watermarks(address, tp, "read_uncommitted")
    _, last_stable_offset = watermarks(address, tp, "read_committed")
    return {
        "log_start_offset": log_start_offset,
        "high_watermark": high_watermark,
        "last_stable_offset": last_stable_offset,
    }


def read_truth(address: str, topics: dict[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """What a read_committed consumer gets of all partitions, by partition and offset."""
    partitions = [TopicPartition(name, n) for name, (count, _) in topics.items() for n in range(count)]
    lines = (line for tp in partitions for line in read_all(address, tp, "read_committed"))
    return in_order(json.loads(line) for line in lines)


def write_truth(address: str, topics: dict[str, tuple[int, str]], out: Path) -> None:
    """`truth.jsonl`, `truth_uncommitted.jsonl` and `offsets.json` of all partitions."""
    partitions = [TopicPartition(name, n) for name, (count, _) in topics.items() for n in range(count)]
    for name, isolation in (
        ("truth.jsonl", "read_committed"),
        ("truth_uncommitted.jsonl", "read_uncommitted"),
    ):
        lines = [line for tp in partitions for line in read_all(address, tp, isolation)]
        (out / name).write_text("".join(line + "\n" for line in lines))
    table = {f"{tp.topic}-{tp.partition}": _offsets(address, tp) for tp in partitions}
    (out / "offsets.json").write_text(json.dumps(table, indent=1))
