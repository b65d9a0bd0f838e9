"""Replay of quarantined rows: which can be replayed and how, and the decisions that the next run reads.

A decision copies the bytes of its batch into the lake, so that they outlive the source.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.chain import Chain, read_chain
from spark_jobs.lake.errors import ObjectMissing
from spark_jobs.lake.identity import locked_lake
from spark_jobs.lake.inherited_rows import (
    INHERITED,
    InheritedObject,
    InheritedRows,
    get_inherited,
    manifest_entry,
    put_inherited,
)
from spark_jobs.lake.layout import object_key, run_key, step_key
from spark_jobs.lake.manifest import Manifest, ManifestEntry, Replay, StagedObjects, read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.replays import (
    ReplayWay,
    decision_id,
    has_current_origin,
    object_path,
    put_decision,
    read_decisions,
)
from spark_jobs.lake.run_folder import INPUTS, RunFolder, read_inputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.lake.table_listing import read_listing
from spark_jobs.sources.registry import reader_of
from spark_jobs.tables.materialise import QUARANTINE, QuarantineKind
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import INHERITED_OBJECTS

NULLS = {"control_type": NO_CONTROL_TYPE, "coordinator_epoch": NO_COORDINATOR_EPOCH}
"""Values that represent null in inherited rows, where it is not -1."""

Row = dict[str, Any]
"""A row of the table `quarantine`, or of `batches`."""
Place = tuple[str, str, int]
"""The location of a batch: source, path and position."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TakenBatch:
    """A batch that the run has accepted: its object, its row, and the transactional id of its transaction."""

    entry: ManifestEntry
    row: Rows
    transactional_id: str | None


FoundBatch = tuple[Place, TakenBatch]


@dataclass(frozen=True)
class Origins:
    """The objects and accepted batches of one run."""

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
        """The object with that path, the run's own or an inherited one."""
        return self._objects.get((source, path))

    def taken(self, partition: TopicPartition, places: Collection[Place]) -> dict[Place, TakenBatch]:
        """The accepted batches at `places` whose records the run was to publish."""
        found = chain(
            self._taken_in_this_run(partition, places),
            self._taken_before(partition, places),
            self._taken_again(partition, places),
        )
        return dict(found)

    @cached_property
    def _objects(self) -> dict[tuple[str, str], ManifestEntry]:
        entries = (*self._inherited_objects, *self.manifest.batches)
        return {(entry.source, entry.path): entry for entry in entries}

    @cached_property
    def _inherited_objects(self) -> tuple[ManifestEntry, ...]:
        key = step_key(self.run_id, Step.REBUILD, INHERITED_OBJECTS.file)
        return tuple(_inherited_entry(row) for row in read_table(self.lake, key).to_pylist())

    @cached_property
    def _partitions(self) -> dict[TopicPartition, dict[str, Any]]:
        table = read_table(self.lake, step_key(self.run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file))
        return {TopicPartition(row["topic"], row["partition"]): row for row in table.to_pylist()}

    def _owners(self, partition: TopicPartition) -> dict[int, str | None]:
        """Transactional ids by the first offsets of their transactions."""
        file = self._partitions[partition]["outcomes"]
        if not file:
            return {}
        columns = read_table(self.lake, step_key(self.run_id, Step.RESOLVE, file)).to_pydict()
        return dict(zip(columns["first_offset"], columns["transactional_id"], strict=True))

    def _taken_in_this_run(
        self, partition: TopicPartition, places: Collection[Place]
    ) -> Iterator[FoundBatch]:
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

    def _taken_before(self, partition: TopicPartition, places: Collection[Place]) -> Iterator[FoundBatch]:
        """Batches of earlier runs that this one published."""
        owners = self._owners(partition)
        for digest in self._partitions[partition]["held"]:
            for place, entry, row in _found_in(get_inherited(self.lake, digest), partition, places):
                yield place, _taken(entry, row, owners.get(int(row["txn_first_offset"][0])))

    def _taken_again(self, partition: TopicPartition, places: Collection[Place]) -> Iterator[FoundBatch]:
        """Batches that this run has replayed by decoding them again."""
        for replay in self.manifest.replays:
            if replay.inherited and (replay.topic, replay.partition) == partition:
                for place, entry, row in _found_in(
                    get_inherited(self.lake, replay.inherited), partition, places
                ):
                    yield place, _taken(entry, row, replay.transactional_id)


def _place(entry: ManifestEntry, position: int) -> Place:
    return entry.source, entry.path, position


def _taken(entry: ManifestEntry, row: Rows, owner: str | None) -> TakenBatch:
    return TakenBatch(entry=entry, row=row, transactional_id=owner)


def _inherited_entry(row: Row) -> ManifestEntry:
    order, topic, partition = row.pop("object_order"), row.pop("topic"), row.pop("partition")
    return manifest_entry(InheritedObject(**row), order=order, topic=topic, partition=partition)


def _found_in(
    inherited: InheritedRows, partition: TopicPartition, places: Collection[Place]
) -> Iterator[tuple[Place, ManifestEntry, Rows]]:
    wanted = {position for *_, position in places}
    for number in np.flatnonzero(np.isin(inherited.rows["position"], list(wanted))).tolist():
        row = inherited.rows[number : number + 1]
        home = inherited.objects[int(row["object"][0])]
        entry = manifest_entry(home, order=0, topic=partition.topic, partition=partition.partition)
        place = _place(entry, int(row["position"][0]))
        if place in places:
            yield place, entry, row


def _inherited_row(row: Row) -> Rows:
    """A row of the table `batches` as an inherited row."""
    inherited = np.zeros(1, dtype=INHERITED)
    for name in INHERITED.names or ():
        if name in row:
            inherited[name] = row[name] if row[name] is not None else NULLS.get(name, -1)
    return inherited


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of rows of one run's quarantine; None matches every value."""

    run_id: str
    topic: str | None = None
    partition: int | None = None
    kind: QuarantineKind | None = None
    offset: int | None = None
    path: str | None = None

    def takes(self, row: Row) -> bool:
        """Whether the row is selected."""
        wanted = {name: getattr(self, name) for name in ("topic", "partition", "kind", "offset", "path")}
        return all(row[name] == value for name, value in wanted.items() if value is not None)


def quarantined(lake: ObjectStore, selection: Selection) -> Iterator[Row]:
    """The selected rows as the run wrote them."""
    folder = RunFolder(lake, read_inputs(lake, selection.run_id))
    for entry in read_listing(folder, Step.MATERIALISE):
        if entry.table == QUARANTINE.name and entry.topic is None and entry.file is not None:
            for part in iter_rows(lake, folder.key(Step.MATERIALISE, entry.file)):
                yield from filter(selection.takes, part.to_pylist())


def place_of(row: Row) -> Place:
    """The batch's location: source, path and position."""
    return row["source"], row["path"], row["position"]


DECIDED = "its broker has decided on it: restore the log in the source, then backfill the date"
UNKNOWN_SOURCE = "the configuration has no source of this name any more"
UNCOUNTED = "its message format does not store the record count"
GONE = "the bytes are not in the quarantine, and the object is not known any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One row of the quarantine; `refusal` says why it cannot be replayed, empty if it can."""

    row: Row
    way: ReplayWay | None = None
    batch: TakenBatch | None = None
    refusal: str = ""

    @property
    def key(self) -> tuple[Place, int | None]:
        """Identifies the batch, or one record of it."""
        is_record = self.row["kind"] == QuarantineKind.UNFIT
        return place_of(self.row), self.row["offset"] if is_record else None


Decided = Mapping[tuple[Place, int | None], str]
"""Earlier decisions by key, with a sentence about their state."""


def choose(settings: Settings, origins: Origins, rows: Sequence[Row], decided: Decided) -> Iterator[Choice]:
    """A choice for every row, in order of topic and partition."""
    in_order = sorted(rows, key=lambda row: (row["topic"], row["partition"]))
    for (topic, partition), same in groupby(in_order, key=lambda row: (row["topic"], row["partition"])):
        together = list(same)
        places = {place_of(row) for row in together if _was_taken(row)}
        taken = origins.taken(TopicPartition(topic, partition), places) if places else {}
        for row in together:
            choice = _choice(settings, origins, row, taken)
            yield _unless_decided(choice, decided)


def _was_taken(row: Row) -> bool:
    """Whether its batch was accepted and has offsets: then it can only be decoded again."""
    corrupt_later = row["kind"] == QuarantineKind.CORRUPT and row["offset"] is not None
    return corrupt_later or row["kind"] == QuarantineKind.UNFIT


def _choice(settings: Settings, origins: Origins, row: Row, taken: Mapping[Place, TakenBatch]) -> Choice:
    batch = taken.get(place_of(row))
    refusal = _refusal(settings, origins, row, batch)
    if refusal:
        return Choice(row=row, refusal=refusal)
    return Choice(row=row, way=ReplayWay.ARRIVE if batch is None else ReplayWay.DECODE, batch=batch)


def _refusal(settings: Settings, origins: Origins, row: Row, batch: TakenBatch | None) -> str:
    source = next((each for each in settings.sources if each.name == row["source"]), None)
    if row["kind"] == QuarantineKind.HELD:
        return f"a later run takes it once {Verdict[row['verdict'].upper()].waits_for}"
    if source is None:
        return UNKNOWN_SOURCE
    if batch is not None:
        is_old = batch.row["magic"][0] < MAGIC_V2
        return UNCOUNTED if is_old and row["kind"] == QuarantineKind.CORRUPT else ""
    if reader_of(source).origin is AppendOrigin.REPLICATION:
        return DECIDED
    is_gone = row["bytes"] is None and origins.object_at(row["source"], row["path"]) is None
    return GONE if is_gone else ""


def _unless_decided(choice: Choice, decided: Decided) -> Choice:
    if choice.refusal or choice.key not in decided:
        return choice
    return Choice(row=choice.row, refusal=decided[choice.key])


DECIDED_BEFORE = "it was already chosen for the next run"


class NotToReplay(OnceoverError):
    """A run whose quarantine cannot be replayed."""


def list_choices(settings: Settings, selection: Selection) -> list[Choice]:
    """The selected rows of the run's quarantine, with the way to replay each, or why it cannot be."""
    lake = open_lake(settings)
    chain = read_chain(lake)
    _check_run(lake, chain, selection.run_id)
    rows = list(quarantined(lake, selection))
    origins = Origins(lake, settings, selection.run_id)
    return list(choose(settings, origins, rows, _decided(lake, chain, selection.run_id)))


def decide(settings: Settings, selection: Selection, *, why: str) -> tuple[list[Choice], list[Replay]]:
    """Stores a decision for each selected row that can be replayed; returns all choices and the decisions."""
    with locked_lake(settings, purpose=f"replay of {selection.run_id}") as (lake, _):
        choices = list_choices(settings, selection)
        origins = Origins(lake, settings, selection.run_id)
        replays = list(_replays(origins, [each for each in choices if not each.refusal], why))
        for replay in replays:
            put_decision(lake, replay)
    return choices, replays


def _check_run(lake: ObjectStore, chain: Chain, run_id: str) -> None:
    if lake.stat(run_key(run_id, INPUTS)) is None:
        raise ObjectMissing(f"{run_id}: the lake {lake.url} has no such run; `onceover runs` lists them")
    if run_id not in {entry.run_id for entry in chain.current.values()}:
        raise NotToReplay(
            f"{run_id}: is not the current run of its date: it is not final, or another run replaced it"
        )


def _decided(lake: ObjectStore, chain: Chain, run_id: str) -> Decided:
    """Earlier decisions on the run's quarantine, and the runs that have replayed them."""
    taken_by = {
        replay.decision: entry.run_id
        for entry in chain.current.values()
        for replay in read_run_manifest(lake, entry.run_id).replays
    }
    return {
        (replay.place, offset): _status_of(taken_by.get(replay.decision))
        for replay in read_decisions(lake)
        if replay.origin == run_id and has_current_origin(replay, chain)
        for offset in replay.offsets or (None,)
    }


def _status_of(run_id: str | None) -> str:
    return DECIDED_BEFORE if run_id is None else f"run {run_id} has replayed it"


def _replays(origins: Origins, choices: Sequence[Choice], why: str) -> Iterator[Replay]:
    """One replay for each batch, with all its selected records."""
    in_order = sorted(choices, key=lambda each: (place_of(each.row), each.row["offset"] or 0))
    for _, same in groupby(in_order, key=lambda each: place_of(each.row)):
        together = list(same)
        first = together[0]
        if first.batch is None:
            yield _arriving(origins, first, why)
        else:
            yield _decoding(origins, first.batch, [each.row for each in together], why)


def _arriving(origins: Origins, choice: Choice, why: str) -> Replay:
    row = choice.row
    data = row["bytes"] if row["bytes"] is not None else _bytes(origins, row)
    return Replay(
        decision=decision_id(origins.run_id, place_of(row), ()),
        way=ReplayWay.ARRIVE.value,
        kind=row["kind"],
        arrival=_arrival(origins, row),
        size=len(data),
        sha256=_put_object(origins.lake, data),
        why=why,
        **_where(origins, row),
    )


def _decoding(origins: Origins, batch: TakenBatch, rows: Sequence[Row], why: str) -> Replay:
    row, header = rows[0], batch.row
    is_record = row["kind"] == QuarantineKind.UNFIT
    offsets = tuple(each["offset"] for each in rows) if is_record else ()
    position, size = int(header["position"][0]), int(header["size"][0])
    data = origins.read(batch.entry, position, size)
    sha256 = _put_object(origins.lake, data)
    return Replay(
        decision=decision_id(origins.run_id, place_of(row), offsets),
        way=ReplayWay.DECODE.value,
        kind=row["kind"],
        arrival=int(header["offset"][0]),
        size=size,
        sha256=sha256,
        inherited=_inherit(origins, batch, row, sha256),
        records=len(offsets) or max(int(header["record_count"][0]), 0),
        offsets=offsets,
        transactional_id=batch.transactional_id,
        why=why,
        **_where(origins, row),
    )


def _where(origins: Origins, row: Row) -> dict[str, Any]:
    names = ("topic", "partition", "source", "path", "position")
    return {"origin": origins.run_id, **{name: row[name] for name in names}}


def _arrival(origins: Origins, row: Row) -> int:
    entry = origins.object_at(row["source"], row["path"])
    return entry.order if entry is not None else 0


def _bytes(origins: Origins, row: Row) -> bytes:
    """The bytes of a batch that was too large for the table."""
    entry = origins.object_at(row["source"], row["path"])
    if entry is None:
        raise NotToReplay(f"{row['source']}/{row['path']}: the run {origins.run_id} knows no such object")
    return origins.read(entry, row["position"], row["size"])


def _put_object(lake: ObjectStore, data: bytes) -> str:
    """Copies the batch to the staged objects, so that it outlives its source."""
    sha256 = hashlib.sha256(data).hexdigest()
    if lake.stat(object_key(sha256)) is None:
        lake.put(object_key(sha256), data)
    return sha256


def _inherit(origins: Origins, batch: TakenBatch, row: Row, sha256: str) -> str:
    """Stores the batch's row, which now refers to the copy in an object of its own; returns its digest."""
    partition = TopicPartition(row["topic"], row["partition"])
    home = InheritedObject(
        source=row["source"],
        path=object_path(origins.run_id, partition, place_of(row)),
        role=batch.entry.role.value,
        size=int(batch.row["size"][0]),
        sha256=sha256,
        version="",
        referenced=False,
    )
    copied = batch.row.copy()
    copied["object"], copied["position"] = 0, 0
    return put_inherited(origins.lake, InheritedRows(objects=(home,), rows=copied))
