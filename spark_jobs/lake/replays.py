"""Decisions to replay quarantined rows: stored in the lake, inputs of the next run.

A decision names the run whose quarantine it is from. It counts for the first run after that run's date, and
only while that run is the current one of its date: a run in its place has judged everything anew itself.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, replace
from datetime import date
from enum import StrEnum

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.errors import understood
from spark_jobs.lake.layout import REPLAYS, replay_key
from spark_jobs.lake.manifest import Manifest, ManifestEntry, ObjectRole, Replay, read_replay
from spark_jobs.lake.object_store import ObjectStore

ID_DIGITS = 16
FOLDER = "replay"
"""Where replayed objects stand, as their paths say; no source has it, the bytes are in the lake."""
DATE_LENGTH = len("2024-05-01")


class ReplayWay(StrEnum):
    """How something comes in again.

    `arrive`: a batch that was never taken arrives anew, before everything else of the run. `decode`: a
    batch that was taken keeps its offsets; records of it that were not published are decoded again.
    """

    ARRIVE = "arrive"
    DECODE = "decode"


def decision_id(origin: str, place: tuple[str, str, int], offsets: Iterable[int]) -> str:
    """The same choice has the same name, whoever makes it and why."""
    return digest_of([origin, *place, *offsets])[:ID_DIGITS]


def object_path(origin: str, partition: TopicPartition, place: tuple[str, str, int]) -> str:
    """The path that the copied batch has from now on: it says where it comes from.

    `place` is source, path and position; the path's end keeps apart what else is called alike.
    """
    _, path, position = place
    name, digest = path.rpartition("/")[2], decision_id(origin, place, ())
    return f"{FOLDER}/{origin}/{partition}/{name}@{position}-{digest}"


def put_decision(lake: ObjectStore, replay: Replay) -> None:
    """Stores a decision; the first one of its name wins."""
    lake.put_if_absent(replay_key(replay.decision), canonical_json(asdict(replay)))


def read_decisions(lake: ObjectStore, without: Iterable[str] = ()) -> Iterator[Replay]:
    """Every decision of the lake but those named."""
    left_out = {replay_key(each) for each in without}
    for found in lake.list(REPLAYS):
        if found.key not in left_out:
            yield _read_decision(lake, found.key)


def _read_decision(lake: ObjectStore, key: str) -> Replay:
    with understood(lake.url_of(key)):
        return read_replay(json.loads(lake.read(key)))


def origin_day(replay: Replay) -> date:
    """The date of the run whose quarantine it is from."""
    return date.fromisoformat(replay.origin[:DATE_LENGTH])


def stands(replay: Replay, chain: Chain) -> bool:
    """Whether its run is still the current one of its date."""
    entry = chain.run_of(origin_day(replay))
    return entry is not None and entry.run_id == replay.origin


def due_replays(lake: ObjectStore, chain: Chain, taken: Collection[str], day: date) -> tuple[Replay, ...]:
    """What a run of `day` has to take up: decided, of an earlier date, and not among the `taken` ones."""
    found = read_decisions(lake, without=taken)
    due = (each for each in found if origin_day(each) < day and stands(each, chain))
    return tuple(sorted(due, key=_in_order))


def with_replays(manifest: Manifest, replays: tuple[Replay, ...]) -> Manifest:
    """The manifest with `replays`: replayed batches come before all others of their partition."""
    arriving = [_entry(each) for each in replays if each.way == ReplayWay.ARRIVE]
    ordered = sorted([*arriving, *manifest.entries], key=lambda entry: (entry.topic, entry.partition))
    entries = tuple(replace(entry, order=order) for order, entry in enumerate(ordered))
    return replace(manifest, entries=entries, replays=replays)


def _in_order(replay: Replay) -> tuple[str, int, str, int, int, str]:
    return (
        replay.topic,
        replay.partition,
        replay.origin,
        replay.arrival,
        replay.position,
        replay.decision,
    )


def _entry(replay: Replay) -> ManifestEntry:
    return ManifestEntry(
        order=0,
        source=replay.source,
        role=ObjectRole.CAPTURE,
        topic=replay.topic,
        partition=replay.partition,
        path=object_path(replay.origin, TopicPartition(replay.topic, replay.partition), replay.place),
        size=replay.size,
        sha256=replay.sha256,
    )
