"""Which partitioner has placed the keys of a topic, and with how many partitions.

A copy may lack partitions, and a partition without records is never seen. So the highest number that was seen
is only a lower bound of their number: a partitioner fits if some count puts nearly every key where it was
found. Where none fits all keys, those of each producer are judged. What fits is established for later runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.partitioners import KEY_HASHES, Partitioner
from spark_jobs.tables.audit import ALL_PRODUCERS, TOPIC_PARTITIONERS

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_PARTITIONS = 4096
"""Counts up to here are tried; topics with more are rare."""
FIRST_KEYS = 128
MOST_KEYS = 2000
"""Of a topic, to find out what has placed them."""
EVIDENCE_BITS = 32
"""How unlikely it has to be that keys are where a partitioner puts them by chance, over all counts tried."""
MOST_PRODUCERS = 100
"""Of a topic that are remembered by themselves."""
HALF = 0.5
PARTITIONERS = tuple(KEY_HASHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHashes:
    """Different keys of some partitions of one topic: by every hash, a column for each of `PARTITIONERS`."""

    partition: Int64s
    producer_id: Int64s
    hashes: Int64s

    @property
    def size(self) -> int:
        return int(self.partition.size)

    def take(self, rows: "Flags | slice") -> "KeyHashes":
        return KeyHashes(
            partition=self.partition[rows], producer_id=self.producer_id[rows], hashes=self.hashes[rows]
        )

    def sample(self) -> "KeyHashes":
        """At most about `MOST_KEYS` of them, from all partitions."""
        return self.take(slice(None, None, self.size // MOST_KEYS + 1))


class Fit(NamedTuple):
    """A partitioner that explains where keys are, among so many partitions."""

    partitioner: Partitioner
    partition_count: int

    def misplaces(self, keys: KeyHashes) -> Flags:
        """Which keys it would have put elsewhere; without a known partitioner, no misplaced key."""
        if self.partitioner is Partitioner.NONE:
            return np.zeros(keys.size, dtype=np.bool_)
        hashes = keys.hashes[:, PARTITIONERS.index(self.partitioner)]
        misplaced: Flags = hashes % self.partition_count != keys.partition
        return misplaced


Fits = Mapping[int, Fit]
"""What has placed a topic's keys by producer id, or by `ALL_PRODUCERS`; producers without one are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedKeys:
    """What is established from now on, keys that are misplaced by what was before, and events to report."""

    fits: Fits
    misplaced: Flags
    events: tuple[str, ...] = field(default=())


def misplaced(keys: KeyHashes, fits: Fits) -> Flags:
    """Keys that are not where the established partitioner of their producers puts them."""
    found = np.zeros(keys.size, dtype=np.bool_)
    for producer_id, fit in fits.items():
        own = _of(keys, producer_id)
        found[own] = fit.misplaces(keys.take(own))
    return found


def judge(keys: KeyHashes, known: Fits, least: int, allowed: float) -> JudgedKeys:
    """Keys of a topic of at least `least` partitions; a share of `allowed` may be misplaced."""
    wrong = misplaced(keys, known)
    if not is_established(known):
        return JudgedKeys(fits=find_fits(keys, least, allowed), misplaced=wrong)
    if not wrong.any():
        return JudgedKeys(fits=_with_new_producers(keys, known, least, allowed), misplaced=wrong)
    grown = {
        producer_id: _grown(keys, producer_id, fit, least, allowed) for producer_id, fit in known.items()
    }
    if any(grown[producer_id] != fit for producer_id, fit in known.items()):
        fitting_none = wrong & misplaced(keys, grown)
        return JudgedKeys(fits=grown, misplaced=fitting_none, events=tuple(_growth(known, grown)))
    if np.count_nonzero(wrong) <= allowed * keys.size:
        return JudgedKeys(fits=known, misplaced=wrong)
    found = find_fits(keys, least, allowed)
    if is_established(found) or np.count_nonzero(wrong) > HALF * keys.size:
        event = f"keys are placed by {_named(found)}, in earlier runs by {_named(known)}"
        return JudgedKeys(fits=found, misplaced=wrong, events=(event,))
    return JudgedKeys(fits=known, misplaced=wrong)


def is_established(fits: Fits) -> bool:
    """Whether a partitioner is known for some producer."""
    return any(fit.partitioner is not Partitioner.NONE for fit in fits.values())


def find_fits(keys: KeyHashes, least: int, allowed: float) -> Fits:
    """What has placed the keys: one for all producers, or one for each; empty if there are too few keys."""
    sample = keys.sample()
    whole = _fit(sample, least, allowed)
    if whole is not None or not _is_evidence(sample.size, least):
        return {} if whole is None else {ALL_PRODUCERS: whole}
    each = dict(_fits_of_producers(sample, least, allowed))
    explained = np.isin(sample.producer_id, list(each))
    if each and np.count_nonzero(~explained) <= allowed * sample.size:
        return each
    return {ALL_PRODUCERS: Fit(Partitioner.NONE, least)}


def _fits_of_producers(keys: KeyHashes, least: int, allowed: float) -> Iterator[tuple[int, Fit]]:
    producers, counts = np.unique(keys.producer_id, return_counts=True)
    largest = producers[np.argsort(-counts, kind="stable")][:MOST_PRODUCERS].tolist()
    for producer_id in largest:
        fit = _fit(keys.take(_of(keys, producer_id)), least, allowed)
        if fit is not None and producer_id >= 0:
            yield producer_id, fit


def _with_new_producers(keys: KeyHashes, known: Fits, least: int, allowed: float) -> Fits:
    """Where producers differ, those that are new are looked at, too; the newest ones are remembered."""
    if ALL_PRODUCERS in known:
        return known
    new = keys.take(~np.isin(keys.producer_id, list(known))).sample()
    found = {**dict(_fits_of_producers(new, least, allowed)), **known}
    return dict(list(found.items())[:MOST_PRODUCERS])


def _fit(keys: KeyHashes, least: int, allowed: float) -> Fit | None:
    """The one partitioner that explains nearly all keys; with few keys several may."""
    found = [
        Fit(partitioner, count)
        for partitioner, hashes in zip(PARTITIONERS, keys.hashes.T, strict=True)
        if (count := likeliest_count(hashes, keys.partition, least, most_wrong=int(allowed * keys.size)))
        and _is_evidence(keys.size, count)
    ]
    return found[0] if len(found) == 1 else None


def _grown(keys: KeyHashes, producer_id: int, fit: Fit, least: int, allowed: float) -> Fit:
    """The fit with the count of a topic that got more partitions: keys are placed by the old or new one."""
    own = keys.take(_of(keys, producer_id))
    moved = own.take(fit.misplaces(own))
    if fit.partitioner is Partitioner.NONE or not moved.size:
        return fit
    hashes = moved.hashes[:, PARTITIONERS.index(fit.partitioner)]
    first = max(least, fit.partition_count + 1)
    count = likeliest_count(hashes, moved.partition, first, most_wrong=int(allowed * own.size))
    if count is None or not (_is_evidence(moved.size, count) or count == least):
        return fit
    return Fit(fit.partitioner, count)


def likeliest_count(hashes: Int64s, partitions: Int64s, least: int, *, most_wrong: int) -> int | None:
    """The count from `least` on that explains most of the keys, the smallest of several.

    None if each leaves more than `most_wrong` unexplained; the first keys show it of nearly all counts.
    """
    if not hashes.size:
        return None
    if np.count_nonzero(hashes % least != partitions) == 0:
        return least
    counts = np.arange(least, max(MOST_PARTITIONS, least) + 1)
    some, where = hashes[:FIRST_KEYS, None], partitions[:FIRST_KEYS, None]
    left = counts[np.count_nonzero(some % counts != where, axis=0) <= most_wrong].tolist()
    wrong = [int(np.count_nonzero(hashes % count != partitions)) for count in left]
    return left[int(np.argmin(wrong))] if wrong and min(wrong) <= most_wrong else None


def _is_evidence(keys: int, count: int) -> bool:
    return keys * log2(count) >= EVIDENCE_BITS


def _of(keys: KeyHashes, producer_id: int) -> Flags:
    if producer_id == ALL_PRODUCERS:
        return np.ones(keys.size, dtype=np.bool_)
    own: Flags = keys.producer_id == producer_id
    return own


def _growth(known: Fits, grown: Fits) -> Iterator[str]:
    counts = {
        (fit.partition_count, grown[producer_id].partition_count)
        for producer_id, fit in known.items()
        if grown[producer_id] != fit
    }
    for before, now in sorted(counts):
        yield f"keys are placed among {now} partitions, in earlier runs among {before}: the topic has grown"


def _named(fits: Fits) -> str:
    names = {fit.partitioner for fit in fits.values()}
    known = sorted(names - {Partitioner.NONE}) or [Partitioner.NONE]
    if known == [Partitioner.NONE]:
        return "no partitioner that is known"
    return " and ".join(known)


def read_fits(table: pa.Table | None) -> dict[str, dict[int, Fit]]:
    """What earlier runs have established, by topic."""
    found: dict[str, dict[int, Fit]] = {}
    for row in table.to_pylist() if table is not None else ():
        fit = Fit(Partitioner(row["partitioner"]), row["partition_count"])
        found.setdefault(row["topic"], {})[row["producer_id"]] = fit
    return found


def fits_table(fits: Mapping[str, Fits]) -> pa.Table:
    """The table `topic_partitioners`."""
    rows: Iterable[dict[str, Any]] = (
        {"topic": topic, "producer_id": producer_id, **fit._asdict()}
        for topic, found in sorted(fits.items())
        for producer_id, fit in sorted(found.items())
    )
    return TOPIC_PARTITIONERS.cast(pa.Table.from_pylist(list(rows), schema=TOPIC_PARTITIONERS.schema))
