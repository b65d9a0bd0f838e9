"""Invariants of every random run, named as in Jepsen's and Kafka's own tests.

Each function returns the violations, ideally none. `published` are rows of the topics' tables with producer
and sequence, `Journal` has the outcomes that clients were given.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from tests.broker.clients.journal import COPY, Entry, Outcome, Sent, original

Row = Mapping[str, Any]
Published = Sequence[Row]


def values_of(published: Published) -> Counter[Sent]:
    """How often each value is in each partition."""
    return Counter((row["topic"], row["partition"], row["value"]) for row in published)


def aborted_reads(published: Published, journal: Iterable[Entry]) -> Iterator[str]:
    """No aborted read: what a client aborted, or lost to a fence or a timeout, is nowhere."""
    found = values_of(published)
    for entry in journal:
        if entry.outcome is Outcome.ABORTED:
            yield from (f"{entry.name} was aborted: {sent}" for sent in entry.values if found[sent])


def lost_writes(published: Published, journal: Iterable[Entry], hidden: Container[Sent]) -> Iterator[str]:
    """No lost write: what was acknowledged and committed is there, unless an open transaction hides it.

    `hidden` are the values at and after the last stable offset of their partition.
    """
    found = values_of(published)
    for entry in journal:
        if entry.outcome is Outcome.COMMITTED:
            missing = (sent for sent in entry.values if not found[sent] and sent not in hidden)
            yield from (f"{entry.name} was committed: {sent}" for sent in missing)


def duplicates(published: Published) -> Iterator[str]:
    """No duplicate: no value twice, and no offset twice."""
    yield from (f"{sent}: {count} times" for sent, count in values_of(published).items() if count > 1)
    places = Counter((row["topic"], row["partition"], row["offset"]) for row in published)
    yield from (f"{place}: {count} times" for place, count in places.items() if count > 1)


def torn_transactions(published: Published, journal: Iterable[Entry]) -> Iterator[str]:
    """No torn transaction: all records or none, for any outcome that its client was given."""
    found = values_of(published)
    for entry in journal:
        present = sum(bool(found[sent]) for sent in entry.values)
        if 0 < present < len(entry.values):
            yield f"{entry.name} ({entry.outcome}): {present} of {len(entry.values)} records"


def misordered(published: Published) -> Iterator[str]:
    """Offsets and sequences in order: within a producer's epoch, a higher offset has a higher sequence."""
    last: dict[tuple[str, int, int, int], tuple[int, int]] = {}
    in_order = sorted(published, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    for row in in_order:
        if row["producer_id"] < 0:
            continue
        key = row["topic"], row["partition"], row["producer_id"], row["producer_epoch"]
        offset, sequence = last.get(key, (-1, -1))
        if row["sequence"] <= sequence != MAX_SEQUENCE:
            yield f"{key}: sequence {row['sequence']} at {row['offset']} after {sequence} at {offset}"
        last[key] = row["offset"], row["sequence"]


def unaccounted_batches(batches: Sequence[Row], counts: Mapping[str, int]) -> Iterator[str]:
    """Conservation: every indexed batch has one verdict, and no batch has two."""
    places = Counter(
        (row["run_date"], row["topic"], row["partition"], row["copy"], row["object_order"], row["position"])
        for row in batches
    )
    yield from (f"{place}: {count} verdicts" for place, count in places.items() if count > 1)
    if len(batches) != counts["batches"]:
        yield f"{counts['batches']} batches were indexed, {len(batches)} have a verdict"


def differing_outputs(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[str]:
    """The same result when run again: every file of every step, byte for byte."""
    yield from (name for name in sorted({*one, *other}) if one.get(name) != other.get(name))


def differing_tables(one: Published, other: Published) -> Iterator[str]:
    """The same result when split over runs, or started from a snapshot: the same records."""
    ours, theirs = (Counter(_identity(row) for row in rows) for rows in (one, other))
    yield from (f"only in the first: {key}" for key in ours - theirs)
    yield from (f"only in the second: {key}" for key in theirs - ours)


def _identity(row: Row) -> tuple[Any, ...]:
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "producer_id", "producer_epoch")
    headers = tuple((header["key"], header["value"]) for header in row["headers"])
    return (*(row[name] for name in names), row["sequence"], headers)


def miscopied(published: Published) -> Iterator[str]:
    """Read-process-write is exactly once: each input has at most one copy, and no copy is without input."""
    inputs = {row["value"] for row in published if not row["value"].startswith(COPY)}
    copies = Counter(original(row["value"]) for row in published if row["value"].startswith(COPY))
    yield from (f"{value!r}: {count} copies" for value, count in copies.items() if count > 1)
    yield from (f"{value!r}: a copy of nothing" for value in copies if value not in inputs)
