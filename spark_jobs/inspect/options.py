"""The options of `onceover inspect`."""

from dataclasses import dataclass

from spark_jobs.reading.isolation import Isolation

__all__ = ["Isolation", "Options"]


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
