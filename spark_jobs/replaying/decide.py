"""Records decisions on quarantined rows: copies the batches' bytes and stores the decisions for the next
run.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.replaying.choice import Choice, Decided, choose
from spark_jobs.replaying.origins import Origins, TakenBatch
from spark_jobs.replaying.quarantine import Row, Selection, place_of, quarantined
from spark_jobs.storage.chain import Chain, read_chain
from spark_jobs.storage.errors import ObjectMissing
from spark_jobs.storage.identity import locked_lake
from spark_jobs.storage.inherited_rows import InheritedObject, InheritedRows, put_inherited
from spark_jobs.storage.layout import object_key, run_key
from spark_jobs.storage.manifest import Replay
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.replays import (
    ReplayWay,
    decision_id,
    object_path,
    put_decision,
    read_decisions,
    stands,
)
from spark_jobs.storage.run_folder import INPUTS
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.storage.stores import open_lake
from spark_jobs.tables.materialise import QuarantineKind

HELD_STATE = "it was already chosen for the next run"


class NotToReplay(OnceoverError):
    """A run whose quarantine nobody can take anything of."""


def list_choices(settings: Settings, selection: Selection) -> list[Choice]:
    """What the run has in quarantine, and what could be done about it."""
    lake = open_lake(settings)
    chain = read_chain(lake)
    _check_run(lake, chain, selection.run_id)
    rows = list(quarantined(lake, selection))
    origins = Origins(lake, settings, selection.run_id)
    return list(choose(settings, origins, rows, _decided(lake, chain, selection.run_id)))


def decide(settings: Settings, selection: Selection, *, why: str) -> tuple[list[Choice], list[Replay]]:
    """All choices, and the decisions that were made on those that can be replayed."""
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
    """What was chosen of the run before, and which run has taken it up."""
    taken_by = {
        replay.decision: entry.run_id
        for entry in chain.current.values()
        for replay in read_run_manifest(lake, entry.run_id).replays
    }
    return {
        (replay.place, offset): _became(taken_by.get(replay.decision))
        for replay in read_decisions(lake)
        if replay.origin == run_id and stands(replay, chain)
        for offset in replay.offsets or (None,)
    }


def _became(run_id: str | None) -> str:
    return HELD_STATE if run_id is None else f"run {run_id} has taken it up"


def _replays(origins: Origins, choices: Sequence[Choice], why: str) -> Iterator[Replay]:
    """One for each batch, with all its chosen records."""
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
    """Of a batch that was too large to be kept in the table."""
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
    """The batch's row, for its copy in an object of its own."""
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
    alone = batch.row.copy()
    alone["object"], alone["position"] = 0, 0
    return put_inherited(origins.lake, InheritedRows(objects=(home,), rows=alone))
