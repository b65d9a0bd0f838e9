"""Rows of a records table in the words of a recording's `truth.jsonl`."""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATA = Path(__file__).parents[2] / "recordings" / "data"


def recorded_partitions(recording: str) -> list[Path]:
    """The partitions of users' topics."""
    data = DATA / recording / "data"
    return [path for path in data.iterdir() if path.is_dir() and not path.name.startswith("__")]


def truth_of(recording: str) -> list[dict[str, Any]]:
    """What a read_committed consumer got, by partition and offset."""
    lines = (DATA / recording / "truth.jsonl").read_text().splitlines()
    return in_order(json.loads(line) for line in lines)


def in_order(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: (record["topic"], record["partition"], record["offset"]))


def as_truth(topic: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as the recorder wrote the record down."""
    return {
        "topic": topic,
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": timestamp_ms(row),
        "timestamp_type": row["timestamp_type"],
        "key": _text(row["key"]),
        "value": _text(row["value"]),
        "headers": [[header["key"], _text(header["value"])] for header in row["headers"]],
    }


def timestamp_ms(row: dict[str, Any]) -> int:
    """The timestamp as Kafka has it, of a row or of a record: -1 for none."""
    found = row["timestamp"]
    if found is None:
        outside = row["timestamp_out_of_range"]
        return -1 if outside is None else outside
    return found if isinstance(found, int) else milliseconds(found)


def milliseconds(time: datetime) -> int:
    """Since 1970."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
