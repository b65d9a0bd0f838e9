"""Names that are made of topics' names: a folder in a run's folder, and the table in a catalog.

Kafka tells `Orders` from `orders` and `a-b` from `a_b`; most catalogs fold case, and dots separate their
namespaces. A folder's name depends on the topic alone. A table's name is readable, and only a topic whose
readable name is taken gets a digest behind it; which one that is, the catalog remembers.
"""

import hashlib
import re
from collections.abc import Iterator
from itertools import count

PLAIN = re.compile(r"[a-z][a-z0-9_]{0,99}")
DIGESTED = re.compile(r".*__[0-9a-f]{16}")
"""A plain name of this form could be what another topic's name was made into, so it is not kept either."""
READABLE_CHARACTERS = 100
_DIGITS = (8, 16, 64)
"""Of a digest: more of them where fewer make a name that is taken, too."""


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
