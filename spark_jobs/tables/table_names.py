"""Topic → table name: safe in every catalog, and never the same for two topics, whatever they are called.

Kafka tells `Orders` from `orders` and `a.b` from `a_b`; most catalogs fold case, and dots separate their
namespaces. A topic whose name is already a plain one keeps it; any other gets its readable part and a digest.
"""

import hashlib
import re

PLAIN = re.compile(r"[a-z][a-z0-9_]{0,99}")
DIGESTED = re.compile(r".*__[0-9a-f]{16}")
"""A plain name of this form could be what another topic's name was made into, so it is not kept either."""
READABLE_CHARACTERS = 80


def table_name(topic: str) -> str:
    """The table that holds the records of `topic`: lower-case letters, digits and underscores."""
    if PLAIN.fullmatch(topic) and not DIGESTED.fullmatch(topic):
        return topic
    readable = re.sub(r"[^a-z0-9]+", "_", topic.lower())[:READABLE_CHARACTERS].strip("_")
    digest = hashlib.sha256(topic.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"t_{readable}__{digest}" if not readable[:1].isalpha() else f"{readable}__{digest}"
