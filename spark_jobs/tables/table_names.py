"""Names derived from topic names: the folder in a run folder, and the table in a catalog.

Kafka distinguishes `Orders` from `orders` and `a-b` from `a_b`; most catalogs ignore case, and dots separate
their namespaces. A folder's name depends only on the topic. A table's name is readable; if it is taken, a
digest is appended. The catalog stores the topic of each table.
"""

import hashlib
import re
from collections.abc import Iterator
from itertools import count

PLAIN = re.compile(r"[a-z][a-z0-9_]{0,99}")
DIGESTED = re.compile(r".*__[0-9a-f]{16}")
"""A plain name of this form could equal the derived name of another topic, so it gets a digest, too."""
READABLE_CHARACTERS = 100
_DIGITS = (8, 16, 64)
"""Digits of a digest to try, more if the shorter name is taken."""


def folder_name(topic: str) -> str:
    """The folder for files of `topic`, never the same for two topics: lower-case letters, digits, `_`."""
    if PLAIN.fullmatch(topic) and not DIGESTED.fullmatch(topic):
        return topic
    readable = re.sub(r"[^a-z0-9]+", "_", topic.lower())[:80].strip("_")
    digest = _digest(topic)[:16]
    return f"t_{readable}__{digest}" if not readable[:1].isalpha() else f"{readable}__{digest}"


def readable_name(topic: str) -> str:
    """The name that the table of `topic` has unless another table has it: lower-case letters, digits, `_`.

    Empty if nothing readable is left of the topic's name.
    """
    if PLAIN.fullmatch(topic):
        return topic
    safe = re.sub(r"[^a-z0-9_]+", "_", topic.lower())[:READABLE_CHARACTERS].strip("_")
    return f"t_{safe}" if safe[:1].isdigit() else safe


def name_candidates(topic: str) -> Iterator[str]:
    """Names for the table of `topic`, the best one first, without end."""
    readable, digest = readable_name(topic), _digest(topic)
    if readable:
        yield readable
    for digits in _DIGITS:
        yield f"{readable or 't'}__{digest[:digits]}"
    for number in count(2):
        yield f"{readable or 't'}__{digest}_{number}"


def _digest(topic: str) -> str:
    return hashlib.sha256(topic.encode("utf-8", "surrogateescape")).hexdigest()
