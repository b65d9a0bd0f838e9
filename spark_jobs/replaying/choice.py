"""What can be replayed, in which way, and why not: one answer for every row of a quarantine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.protocol.record_batch import MAGIC_V2
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.replaying.origins import Origins, TakenBatch
from spark_jobs.replaying.quarantine import Place, Row, place_of
from spark_jobs.sources.registry import reader_of
from spark_jobs.storage.replays import ReplayWay
from spark_jobs.tables.materialise import QuarantineKind

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
        """Names what is chosen: a batch, or one record of it."""
        is_record = self.row["kind"] == QuarantineKind.UNFIT
        return place_of(self.row), self.row["offset"] if is_record else None


Decided = Mapping[tuple[Place, int | None], str]
"""What was chosen before → what became of the choice, as a sentence."""


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
    """Whether its batch has offsets: then it can only be decoded again."""
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
        return f"it comes by itself once {Verdict[row['verdict'].upper()].waits_for}"
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
