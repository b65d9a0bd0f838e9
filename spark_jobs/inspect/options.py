"""The options of `onceover inspect`."""

from dataclasses import dataclass
from enum import StrEnum


class Isolation(StrEnum):
    """Under the names of a consumer's `isolation.level`."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How paths are shown."""

    records: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    as_json: bool = False
    progress: bool | None = None
    """None where the terminal decides."""
    fast: bool | None = None
    """Compiled or plain reading; None where the size decides."""
