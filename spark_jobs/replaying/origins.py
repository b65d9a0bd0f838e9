"""Where the batches of a run's quarantine are to be found: their bytes, and the row that took them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.storage.inherited_rows import (
    INHERITED,
    InheritedObject,
    InheritedRows,
    get_inherited,
    manifest_entry,
)
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.manifest import Manifest, ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows, read_table
from spark_jobs.storage.staged import StagedObjects, read_run_manifest
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import INHERITED_OBJECTS

NULLS = {"control_type": NO_CONTROL_TYPE, "coordinator_epoch": NO_COORDINATOR_EPOCH}
"""Values that represent null in inherited rows, where it is not -1."""

BatchPlace = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TakenBatch:
    """A batch that the run has taken: its object, its row, and whose transaction it is part of."""

    entry: ManifestEntry
    row: Rows
    transactional_id: str | None


Found = tuple[BatchPlace, TakenBatch]


@dataclass(frozen=True)
class Origins:
    """The objects and taken batches of one run."""

    lake: ObjectStore
    settings: Settings
    run_id: str

    @cached_property
    def manifest(self) -> Manifest:
        return read_run_manifest(self.lake, self.run_id)

    def read(self, entry: ManifestEntry, position: int, size: int) -> bytes:
        """Bytes of an object that the run has read."""
        return StagedObjects(self.settings).read_range(entry, position, size)

    def object_at(self, source: str, path: str) -> ManifestEntry | None:
        """The object of that name, the run's own or an inherited one."""
        return self._objects.get((source, path))

    def taken(
        self, partition: TopicPartition, places: Collection[BatchPlace]
    ) -> dict[BatchPlace, TakenBatch]:
        """Those at `places` of the batches that the run has published records of, or tried to."""
        found = chain(
            self._taken_in_this_run(partition, places),
            self._taken_before(partition, places),
            self._taken_again(partition, places),
        )
        return dict(found)

    @cached_property
    def _objects(self) -> dict[tuple[str, str], ManifestEntry]:
        entries = (*self._waited_in, *self.manifest.batches)
        return {(entry.source, entry.path): entry for entry in entries}

    @cached_property
    def _waited_in(self) -> tuple[ManifestEntry, ...]:
        key = step_key(self.run_id, Step.REBUILD, INHERITED_OBJECTS.file)
        return tuple(_waited_in(row) for row in read_table(self.lake, key).to_pylist())

    @cached_property
    def _partitions(self) -> dict[TopicPartition, dict[str, Any]]:
        table = read_table(self.lake, step_key(self.run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file))
        return {TopicPartition(row["topic"], row["partition"]): row for row in table.to_pylist()}

    def _owners(self, partition: TopicPartition) -> dict[int, str | None]:
        """Transactional ids by where transactions began."""
        file = self._partitions[partition]["outcomes"]
        if not file:
            return {}
        columns = read_table(self.lake, step_key(self.run_id, Step.RESOLVE, file)).to_pydict()
        return dict(zip(columns["first_offset"], columns["transactional_id"], strict=True))

    def _taken_in_this_run(
        self, partition: TopicPartition, places: Collection[BatchPlace]
    ) -> Iterator[Found]:
        file, owners = self._partitions[partition]["batches"], self._owners(partition)
        named = {(source, path) for source, path, _ in places}
        orders = {entry.order: entry for name, entry in self._objects.items() if name in named}
        positions = pa.array([position for *_, position in places], pa.int64())
        for part in iter_rows(self.lake, step_key(self.run_id, Step.ADMIT, file)) if file else ():
            is_there = pc.and_(
                pc.is_in(part.column("object_order"), pa.array(orders, pa.int32())),
                pc.is_in(part.column("position"), positions),
            )
            for row in part.filter(is_there).to_pylist():
                entry = orders[row["object_order"]]
                if row["verdict"] == Verdict.ACCEPTED:
                    owner = owners.get(row["txn_first_offset"])
                    yield _place(entry, row["position"]), _taken(entry, _inherited_row(row), owner)

    def _taken_before(self, partition: TopicPartition, places: Collection[BatchPlace]) -> Iterator[Found]:
        """Batches of earlier runs that this one published."""
        owners = self._owners(partition)
        for digest in self._partitions[partition]["held"]:
            for place, entry, row in _found_in(get_inherited(self.lake, digest), partition, places):
                yield place, _taken(entry, row, owners.get(int(row["txn_first_offset"][0])))

    def _taken_again(self, partition: TopicPartition, places: Collection[BatchPlace]) -> Iterator[Found]:
        """Batches that this run itself has decoded once more."""
        for replay in self.manifest.replays:
            if replay.inherited and (replay.topic, replay.partition) == partition:
                for place, entry, row in _found_in(
                    get_inherited(self.lake, replay.inherited), partition, places
                ):
                    yield place, _taken(entry, row, replay.transactional_id)


def _place(entry: ManifestEntry, position: int) -> BatchPlace:
    return entry.source, entry.path, position


def _taken(entry: ManifestEntry, row: Rows, owner: str | None) -> TakenBatch:
    return TakenBatch(entry=entry, row=row, transactional_id=owner)


def _waited_in(row: dict[str, Any]) -> ManifestEntry:
    order, topic, partition = row.pop("object_order"), row.pop("topic"), row.pop("partition")
    return manifest_entry(InheritedObject(**row), order=order, topic=topic, partition=partition)


def _found_in(
    inherited: InheritedRows, partition: TopicPartition, places: Collection[BatchPlace]
) -> Iterator[tuple[BatchPlace, ManifestEntry, Rows]]:
    wanted = {position for *_, position in places}
    for number in np.flatnonzero(np.isin(inherited.rows["position"], list(wanted))).tolist():
        row = inherited.rows[number : number + 1]
        home = inherited.objects[int(row["object"][0])]
        entry = manifest_entry(home, order=0, topic=partition.topic, partition=partition.partition)
        place = _place(entry, int(row["position"][0]))
        if place in places:
            yield place, entry, row


def _inherited_row(row: dict[str, Any]) -> Rows:
    """A row of the table `batches` as an inherited row."""
    inherited = np.zeros(1, dtype=INHERITED)
    for name in INHERITED.names or ():
        if name in row:
            inherited[name] = row[name] if row[name] is not None else NULLS.get(name, -1)
    return inherited
