"""The site's files in the lake.

Data is JSON in scripts of one call, because pages that are opened from disk may not fetch.
"""

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from spark_jobs.lake.object_store import ObjectStore, join_key

BEGIN, END = b"onceover.take(", b");\n"
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""In JSON these characters occur only inside strings."""
DASHBOARD = "dashboard"
FIRST_PAGE = "index.html"
WRITERS = 16
NAME_DIGITS = 16
NamedData = tuple[str, Any]


def to_script(name: str, value: Any) -> bytes:
    """A script that hands `value` over under `name`; ASCII only, so also without U+2028."""
    text = json.dumps([name, value], separators=(",", ":"), allow_nan=False)
    return BEGIN + text.translate(_ESCAPED).encode("ascii") + END


def to_constant(name: str, value: Any) -> bytes:
    """A script that defines `name` for the scripts after it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return f"onceover.{name} = {text.translate(_ESCAPED)};\n".encode("ascii")


def from_script(data: bytes) -> Any:
    """The value in a script of `to_script`."""
    return json.loads(data.removeprefix(BEGIN).removesuffix(END))[1]


def topic_code(topic: str) -> str:
    """Represents a topic in file names and links, whatever its name."""
    return hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()[:NAME_DIGITS]


def shard_of(code: str) -> str:
    """The shard of a topic among sixteen files: few enough to write in each run, small enough to load."""
    return code[0]


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """The files of one site; a name of data is its path below `data/` without its ending."""

    lake: ObjectStore

    def key(self, path: str) -> str:
        return join_key(DASHBOARD, path)

    def put(self, path: str, data: bytes) -> None:
        self.lake.put(self.key(path), data)

    def put_data(self, files: Iterable[NamedData]) -> int:
        """Writes data files, several at a time; returns how many."""
        with ThreadPoolExecutor(WRITERS) as writers:
            return len(list(writers.map(lambda each: self._put_one(*each), files)))

    def read_data(self, name: str) -> Any | None:
        """What was written under `name`; None if nothing was."""
        key = self.key(f"data/{name}.js")
        return None if self.lake.stat(key) is None else from_script(self.lake.read(key))

    def _put_one(self, name: str, value: Any) -> None:
        self.put(f"data/{name}.js", to_script(name, value))
