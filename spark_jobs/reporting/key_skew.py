"""Which keys a topic's records crowd under, from a sample: a few thousand keys of each file."""

from collections import Counter, defaultdict
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.storage.parquet_file import iter_rows

PER_FILE = 20_000
PER_TOPIC = 100_000
SHOWN_KEYS = 5
SHOWN_CHARACTERS = 80

Skew = dict[str, Any]


def key_skews(tables: RunTables) -> dict[str, Skew]:
    """By topic: how many keys were looked at, how many differ, and the most frequent ones."""
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
