"""Decisions to replay quarantined rows: stored in the lake, inputs of the next run.

A decision names the run whose quarantine it is from. It applies to the first run after that run's date, and
only while that run is the current one of its date: a run that replaces it has judged all batches itself.
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
"""First part of the paths of replayed objects; no source has such a directory, the bytes are in the lake."""
DATE_LENGTH = len("2024-05-01")


class ReplayWay(StrEnum):
    """How a quarantined batch is replayed.

    `arrive`: a batch that was not accepted arrives again, before all other batches of the run. `decode`: a
    batch that was accepted keeps its offsets; its records that were not published are decoded again.
    """

    ARRIVE = "arrive"
    DECODE = "decode"


def decision_id(origin: str, place: tuple[str, str, int], offsets: Iterable[int]) -> str:
    """The name of a decision: equal choices have equal names, also with another reason."""
    return digest_of([origin, *place, *offsets])[:ID_DIGITS]


def object_path(origin: str, partition: TopicPartition, place: tuple[str, str, int]) -> str:
    """The path of the copied batch, made from its origin.

    `place` is source, path and position; the digest at the end distinguishes files of the same name.
    """
    _, path, position = place
    name, digest = path.rpartition("/")[2], decision_id(origin, place, ())
    return f"{FOLDER}/{origin}/{partition}/{name}@{position}-{digest}"


def put_decision(lake: ObjectStore, replay: Replay) -> None:
    """Stores a decision; the first one of its name wins."""
    lake.put_if_absent(replay_key(replay.decision), canonical_json(asdict(replay)))


def read_decisions(lake: ObjectStore, without: Iterable[str] = ()) -> Iterator[Replay]:
    """Every decision of the lake except those in `without`."""
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


def has_current_origin(replay: Replay, chain: Chain) -> bool:
    """Whether the run of its quarantine is still the current one of its date."""
    entry = chain.run_of(origin_day(replay))
    return entry is not None and entry.run_id == replay.origin


def due_replays(lake: ObjectStore, chain: Chain, taken: Collection[str], day: date) -> tuple[Replay, ...]:
    """The replays for a run of `day`: decided, of an earlier date, and not among the `taken` ones."""
    found = read_decisions(lake, without=taken)
    due = (each for each in found if origin_day(each) < day and has_current_origin(each, chain))
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
