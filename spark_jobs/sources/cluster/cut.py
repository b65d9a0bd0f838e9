"""The cut of a run date: where each partition was, and up to where it is fetched. Files of a fetched source:

    sources/<source>/<run date>/plan.json                        what is to be fetched; written first
    sources/<source>/<run date>/<topic>-<partition>/<base>.log   segments, complete once they exist
    sources/<source>/<run date>/<topic>-<partition>/fetched.json how far the partition is fetched
    sources/<source>/<run date>/cut.json                         facts of the cut; written last

The folder also has the files that a broker keeps beside its logs, and `onceover-copy.json`.
"""

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any, ClassVar, TypeVar

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.sources import INTERNAL_TOPICS, Source
from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import OtherCluster, StorageError, StoreDenied, understood
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.object_store import ObjectStore

FORMAT = 1
PLAN, CUT, FETCHED = "plan.json", "cut.json", "fetched.json"
SCHEMAS = "_schemas"
LATER_TOPICS = (*INTERNAL_TOPICS, SCHEMAS)
"""Topics that are cut after all others; a principal that may not read one of them is no error."""
UNKNOWN = -1
RUN_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
Epochs = tuple[tuple[int, int], ...]
"""Leader epochs with the offset at which each begins."""
Result = TypeVar("Result")


class ClusterUnavailable(StorageError):
    """Brokers did not answer properly, even after retries."""

    transient: ClassVar[bool] = True


class VersionMissing(ClusterUnavailable):
    """A broker does not speak a version of a request that is needed."""

    transient: ClassVar[bool] = False


class QuotaExceeded(ClusterUnavailable):
    """A broker throttles every Fetch, so that nothing is fetched."""


class ClusterDenied(StoreDenied):
    """The cluster refused the credentials, or the principal may not read a topic: a person has to act."""


class LogDiverged(StorageError):
    """The cluster lost or replaced offsets that were fetched before: a person has to act."""


def check_cluster(source: Source, before: str, found: str) -> None:
    """Raises `OtherCluster` if the ids of both clusters are known and differ."""
    if before and found and before != found:
        raise OtherCluster(
            f"source {source.name}: the brokers at bootstrap ({','.join(source.bootstrap)}) are of cluster "
            f"{found}, but earlier runs fetched from cluster {before}. Correct bootstrap, or give the other "
            "cluster a source of its own with another name"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """One partition at the moment of the cut.

    It is fetched from `start` to `end`, the high watermark. `expected` is where the last cut ended, -1 for a
    partition without one; if `start` is later, retention or DeleteRecords overtook the runs. `epochs` are the
    leader epochs of what was fetched before.
    """

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    log_start_offset: int
    last_stable_offset: int
    leader_epoch: int
    expected: int = UNKNOWN
    is_compacted: bool = False
    epochs: Epochs = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def known_end(self) -> tuple[int, int] | None:
        """The last leader epoch that earlier cuts have, and where they end in it; None without one."""
        return (self.epochs[-1][0], self.expected) if self.epochs and self.expected > 0 else None

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return LeaderEpochs(entries=tuple(EpochEntry(epoch=e, start_offset=s) for e, s in self.epochs))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFetched:
    """What was fetched of a partition: up to `next_offset`, in `segments`.

    `first_offset` is that of the first batch, -1 without one. `log_start_offset` is the latest that a leader
    reported. `is_gone`: the topic was deleted before its end was reached.
    """

    topic: str
    partition: int
    next_offset: int
    log_start_offset: int
    first_offset: int = UNKNOWN
    epochs: Epochs = ()
    segments: tuple[str, ...] = ()
    size: int = 0
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """What all cuts so far have of a partition."""

    topic_id: str
    next_offset: int
    epochs: Epochs


KnownPartitions = Mapping[TopicPartition, KnownPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cut of a run date before it is fetched.

    Times are those of reading the high watermarks, of data topics first, as in `onceover-copy.json`. `denied`
    are those of `LATER_TOPICS` that the principal may not read. `known` is what earlier cuts have.
    """

    day: date
    cluster_id: str
    data_times: tuple[str, str]
    coordinator_times: tuple[str, str]
    partitions: tuple[PartitionCut, ...]
    denied: tuple[str, ...] = ()
    known: KnownPartitions = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def known_after(
        self, fetched: Mapping[TopicPartition, PartitionFetched]
    ) -> dict[TopicPartition, KnownPartition]:
        """What all cuts have of each partition once this one is fetched."""
        after = dict(self.known)
        for cut in self.partitions:
            partition = TopicPartition(cut.topic, cut.partition)
            done = fetched[partition]
            after[partition] = KnownPartition(
                topic_id=cut.topic_id, next_offset=done.next_offset, epochs=done.epochs
            )
        return after


def plan_bytes(plan: Plan) -> bytes:
    """The file of a plan."""
    line = asdict(replace(plan, known={}))
    known = [[*partition, asdict(each)] for partition, each in sorted(plan.known.items())]
    return canonical_json({"format": FORMAT, **line, "day": plan.day.isoformat(), "known": known})


def read_plan(lake: ObjectStore, source: str, day: date) -> Plan | None:
    """The plan of a run date; None if nothing is planned."""
    key = source_key(source, day, PLAN)
    if lake.stat(key) is None:
        return None
    with understood(lake.url_of(key)):
        line = json.loads(lake.read(key))
        return Plan(
            day=date.fromisoformat(line["day"]),
            cluster_id=line["cluster_id"],
            data_times=tuple(line["data_times"]),
            coordinator_times=tuple(line["coordinator_times"]),
            partitions=tuple(
                PartitionCut(**{**each, "epochs": _pairs(each["epochs"])}) for each in line["partitions"]
            ),
            denied=tuple(line["denied"]),
            known=dict(_known(line["known"])),
            notes=tuple(line["notes"]),
        )


def _known(lines: list[Any]) -> Iterator[tuple[TopicPartition, KnownPartition]]:
    for topic, partition, each in lines:
        yield TopicPartition(topic, partition), KnownPartition(**{**each, "epochs": _pairs(each["epochs"])})


def _pairs(lines: list[list[int]]) -> Epochs:
    return tuple((epoch, start) for epoch, start in lines)


def fetched_bytes(fetched: PartitionFetched) -> bytes:
    """The file of what is fetched of a partition."""
    return canonical_json({"format": FORMAT, **asdict(fetched)})


def read_fetched(data: bytes, *, source: str) -> PartitionFetched:
    """What is fetched of a partition."""
    with understood(source, "remove it: its partition is fetched again"):
        line = json.loads(data)
        line.pop("format")
        return PartitionFetched(
            **{**line, "epochs": _pairs(line["epochs"]), "segments": tuple(line["segments"])}
        )


def cut_bytes(plan: Plan, fetched: Mapping[TopicPartition, PartitionFetched]) -> bytes:
    """The facts of a cut, which are an object of the run's manifest."""
    partitions = []
    for cut in plan.partitions:
        done = fetched[TopicPartition(cut.topic, cut.partition)]
        line = asdict(cut) | {"fetched_to": done.next_offset, "is_gone": done.is_gone}
        line |= {"log_start_offset": max(cut.log_start_offset, done.log_start_offset), "epochs": done.epochs}
        partitions.append(line | {"first_offset": done.first_offset})
    known = [[*partition, asdict(each)] for partition, each in sorted(plan.known_after(fetched).items())]
    return canonical_json(
        {
            "format": FORMAT,
            "day": plan.day.isoformat(),
            "cluster_id": plan.cluster_id,
            "denied": plan.denied,
            "notes": plan.notes,
            "partitions": partitions,
            "known": known,
        }
    )


def read_cut(data: bytes, *, source: str) -> dict[str, Any]:
    """The facts of a cut as parsed JSON."""
    with understood(source):
        found: dict[str, Any] = json.loads(data)
        return found


def known_partitions(lake: ObjectStore, source: str, day: date) -> dict[TopicPartition, KnownPartition]:
    """What all cuts up to that of `day` have fetched."""
    key = source_key(source, day, CUT)
    facts = read_cut(lake.read(key), source=lake.url_of(key))
    with understood(lake.url_of(key)):
        return dict(_known(facts["known"]))


def cluster_of(lake: ObjectStore, source: str, day: date) -> str:
    """The id of the cluster that the cut of `day` is of; empty if it has none."""
    key = source_key(source, day, CUT)
    facts = read_cut(lake.read(key), source=lake.url_of(key))
    with understood(lake.url_of(key)):
        return str(facts["cluster_id"])


MOST_NAMES = 5


def some_of(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutDates:
    """Run dates with a cut that is complete, and those with one that is only planned."""

    complete: tuple[date, ...]
    planned: tuple[date, ...]


def run_date_of(folder: str) -> date | None:
    """The run date that a folder is of; None for other folders, such as `2026-03-01.bak`."""
    try:
        return date.fromisoformat(folder) if RUN_DATE.fullmatch(folder) else None
    except ValueError:
        return None


def cut_dates(lake: ObjectStore, source: str) -> CutDates:
    """The cuts of a source; other folders beside them are ignored."""
    root = source_key(source)
    found: dict[str, set[date]] = {PLAN: set(), CUT: set()}
    for each in lake.list(root):
        day, _, name = each.key.removeprefix(f"{root}/").partition("/")
        if name in found and (cut_at := run_date_of(day)) is not None:
            found[name].add(cut_at)
    return CutDates(complete=tuple(sorted(found[CUT])), planned=tuple(sorted(found[PLAN] - found[CUT])))


def run_async(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What `coroutine` returns; in a thread of its own where a loop is running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
