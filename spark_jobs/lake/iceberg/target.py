"""The target of a table: the files that it should hold of a run, and the properties of the commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from spark_jobs.config.canonical import canonical_json
from spark_jobs.tables.contract import Contract

RUN_ID_PROPERTY, RUN_DATE_PROPERTY = "onceover.run-id", "onceover.run-date"
ROLLBACK_PROPERTY = "onceover.rollback"
"""Snapshot properties: the run and its date, or the run that the snapshot removes."""
TableName = tuple[str, ...]
"""A table's namespace and name, as a catalog takes them."""
TOPIC_PROPERTY = "onceover.topic"
"""Table property: the topic whose records the table holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStamp:
    """The run that changes tables; its properties are in every snapshot summary."""

    run_id: str
    day: date
    manifest: str
    config: str
    state_in: str
    state_out: str

    def summary(self) -> dict[str, str]:
        """Keys and values of a snapshot's summary."""
        return {
            RUN_ID_PROPERTY: self.run_id,
            RUN_DATE_PROPERTY: self.day.isoformat(),
            "onceover.manifest": self.manifest,
            "onceover.config": self.config,
            "onceover.state-in": self.state_in,
            "onceover.state-out": self.state_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of a table by its address."""

    location: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """The files that a table should hold of the run's date, and no others.

    `next_offsets` are the first offsets of the next run's records by partition; only topics have them.
    """

    namespace: str
    contract: Contract
    files: tuple[DataFile, ...] = ()
    topic: str | None = None
    next_offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> tuple[str, str]:
        return self.namespace, self.contract.name

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def summary(self) -> dict[str, str]:
        """The table's properties in a snapshot summary."""
        if self.topic is None:
            return {}
        offsets = canonical_json({str(partition): offset for partition, offset in self.next_offsets.items()})
        return {TOPIC_PROPERTY: self.topic, "onceover.next-offsets": offsets.decode()}

    def properties(self) -> dict[str, str]:
        """The properties of a new table."""
        topic = {} if self.topic is None else {TOPIC_PROPERTY: self.topic}
        return {"comment": self.contract.meaning, "onceover.key": ",".join(self.contract.key), **topic}
