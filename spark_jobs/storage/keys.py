"""Names of objects: relative, `/`-separated, and never able to leave their root."""

import re

from spark_jobs.storage.errors import UnsafeKey

MAX_KEY_BYTES = 1024
"""What S3 takes; file systems take more in total."""
MOST_SHOWN = 10_000
"""Most characters of one line of a message; longer lines are truncated and marked."""
_CLIMBING = frozenset(("", ".", ".."))
_CONTROL, _SURROGATE = re.compile(r"[\x00-\x1f\x7f]"), re.compile(r"[\ud800-\udfff]")


def key_problem(key: str) -> str:
    """Why `key` is not a safe name below a root; empty if it is one."""
    if not key or not _CLIMBING.isdisjoint(key.split("/")):
        return "a name with an empty, '.' or '..' part could leave its root"
    if _CONTROL.search(key):
        return "a name with control characters"
    if _SURROGATE.search(key):
        return "a name that is not UTF-8"
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"a name of more than {MAX_KEY_BYTES} bytes"
    return ""


def join_key(*parts: str) -> str:
    """The parts as one key; a part may itself hold slashes, none may climb."""
    return checked("/".join(parts))


def checked(key: str) -> str:
    """`key` itself, if it is safe."""
    problem = key_problem(key)
    if problem:
        raise UnsafeKey(f"{printable(key)}: {problem}")
    return key


def checked_prefix(prefix: str) -> str:
    """A directory prefix: empty, or a safe key with a slash at its end."""
    if prefix:
        checked(prefix.removesuffix("/"))
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def legible(text: str) -> str:
    """A text for people that may hold names of others: its lines, without control characters."""
    return "\n".join(printable(line, shown=MOST_SHOWN) for line in text.splitlines())


def printable(key: str, *, shown: int = 200) -> str:
    """A name for messages: escaped where it could play tricks with a terminal, cut where it is long."""
    text = key if key.isprintable() else ascii(key)[1:-1]
    return text if len(text) <= shown else f"{text[:shown]}… ({len(key)} characters)"
