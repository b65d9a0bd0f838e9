"""What has placed the keys of a topic: found, remembered, and missed only when it changes."""

from collections.abc import Iterable

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message, Producer

from spark_jobs.kafka.partitioners import KEY_HASHES, Partitioner
from spark_jobs.pipeline.audit.partitioners import (
    PARTITIONERS,
    Fit,
    Fits,
    KeyHashes,
    find_fits,
    fits_table,
    judge,
    likeliest_count,
    misplaced,
    read_fits,
)
from spark_jobs.tables.audit import ALL_PRODUCERS

KEYS = [f"key {number}".encode() for number in range(400)]
ALLOWED = 0.01
KNOWN = tuple(KEY_HASHES)
Row = tuple[bytes, int, int]
"""Key, partition, producer id."""


def _by(partitioner: Partitioner, count: int, keys: Iterable[bytes] = KEYS, producer: int = 7) -> list[Row]:
    return [(key, KEY_HASHES[partitioner](key) % count, producer) for key in keys]


def _own(count: int, keys: Iterable[bytes] = KEYS, producer: int = 7) -> list[Row]:
    """As a custom partitioner places them."""
    return [(key, sum(key) % count, producer) for key in keys]


def _hashed(rows: Iterable[Row]) -> KeyHashes:
    found = [
        (partition, producer, *(KEY_HASHES[each](key) for each in PARTITIONERS))
        for key, partition, producer in rows
    ]
    table = np.array(found, dtype=np.int64).reshape(-1, 2 + len(PARTITIONERS))
    return KeyHashes(partition=table[:, 0], producer_id=table[:, 1], hashes=table[:, 2:])


def _all(partitioner: Partitioner, count: int) -> Fits:
    return {ALL_PRODUCERS: Fit(partitioner, count)}


@pytest.mark.parametrize(
    "name", ["murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random"]
)
def test_a_real_client_places_keys_as_the_partitioner_that_is_found(name: str) -> None:
    """librdkafka itself chooses, against its own mock cluster of four partitions."""
    placed: list[Row] = []

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None
        key, partition = message.key(), message.partition()
        assert isinstance(key, bytes)
        assert isinstance(partition, int)
        placed.append((key, partition, 7))

    producer = Producer({"test.mock.num.brokers": 1, "partitioner": name, "log_level": 0})
    for key in KEYS:
        producer.produce("orders", key=key, value=b"v", on_delivery=note)
    assert producer.flush(60) == 0
    assert find_fits(_hashed(placed), 4, 0) == _all(Partitioner(name.removesuffix("_random")), 4)


@pytest.mark.parametrize("partitioner", KNOWN)
@pytest.mark.parametrize(("count", "seen"), [(12, {0, 1, 2}), (7, {3}), (50, {0, 49}), (3, {0, 1, 2})])
def test_a_partitioner_and_its_count_are_found_though_partitions_are_missing(
    partitioner: Partitioner, count: int, seen: set[int]
) -> None:
    """A divisor of the count may explain as much, as long as the partitions above it are not seen."""
    keys = _hashed(row for row in _by(partitioner, count) if row[1] in seen)
    fits = find_fits(keys, max(seen) + 1, ALLOWED)
    fit = fits[ALL_PRODUCERS]
    assert fit.partitioner is partitioner
    assert count % fit.partition_count == 0
    assert not misplaced(keys, fits).any()


def test_keys_that_another_partitioner_has_placed_are_no_failure() -> None:
    """Such as those of Kafka Streams' changelogs."""
    keys = _hashed(_own(5))
    judged = judge(keys, {}, 5, ALLOWED)
    assert judged.fits == _all(Partitioner.NONE, 5)
    assert not judged.misplaced.any()
    assert not judge(keys, judged.fits, 5, ALLOWED).misplaced.any()


@pytest.mark.parametrize("rows", [[], _by(Partitioner.MURMUR2, 1), _by(Partitioner.MURMUR2, 4, KEYS[:5])])
def test_few_keys_or_one_partition_establish_nothing(rows: list[Row]) -> None:
    assert find_fits(_hashed(rows), max((row[1] for row in rows), default=0) + 1, ALLOWED) == {}


def test_a_few_strange_keys_do_not_hide_a_partitioner() -> None:
    rows = _by(Partitioner.CONSISTENT, 12)
    strange = [(key, (partition + 1) % 12, producer) for key, partition, producer in rows[:3]]
    assert find_fits(_hashed([*strange, *rows[3:]]), 12, ALLOWED) == _all(Partitioner.CONSISTENT, 12)


@pytest.mark.parametrize("partitioner", KNOWN)
def test_what_is_established_and_continues_is_well(partitioner: Partitioner) -> None:
    known = _all(partitioner, 6)
    judged = judge(_hashed(_by(partitioner, 6)), known, 6, ALLOWED)
    assert (judged.fits, judged.events, int(judged.misplaced.sum())) == (known, (), 0)


def test_some_keys_that_move_are_misplaced_and_what_is_established_stays() -> None:
    rows = _by(Partitioner.MURMUR2, 6)
    moved = [(key, (partition + 1) % 6, producer) for key, partition, producer in rows[:100]]
    known = _all(Partitioner.MURMUR2, 6)
    judged = judge(_hashed([*moved, *rows[100:]]), known, 6, ALLOWED)
    assert (judged.fits, int(judged.misplaced.sum())) == (known, 100)


@pytest.mark.parametrize(
    ("rows", "now", "words"),
    [
        (_by(Partitioner.CONSISTENT, 6), _all(Partitioner.CONSISTENT, 6), "consistent"),
        (_own(6), _all(Partitioner.NONE, 6), "no partitioner that is known"),
    ],
    ids=["another one", "an unknown one"],
)
def test_a_change_is_a_fault_once(rows: list[Row], now: Fits, words: str) -> None:
    known, keys = _all(Partitioner.MURMUR2, 6), _hashed(rows)
    judged = judge(keys, known, 6, ALLOWED)
    assert judged.fits == now
    assert judged.misplaced.sum() > len(KEYS) / 2
    assert judged.events == (f"keys are placed by {words}, in earlier runs by murmur2",)
    again = judge(keys, judged.fits, 6, ALLOWED)
    assert (again.fits, again.events, int(again.misplaced.sum())) == (now, (), 0)


@pytest.mark.parametrize("partitioner", KNOWN)
@pytest.mark.parametrize("seen", [12, 9])
def test_a_grown_number_of_partitions_is_an_event_and_no_fault(partitioner: Partitioner, seen: int) -> None:
    rows = [*_by(partitioner, 6, KEYS[:150]), *_by(partitioner, 12, KEYS[150:])]
    keys = _hashed(row for row in rows if row[1] < seen)
    judged = judge(keys, _all(partitioner, 6), seen, ALLOWED)
    assert judged.fits == _all(partitioner, 12)
    assert not judged.misplaced.any()
    assert judged.events == (
        "keys are placed among 12 partitions, in earlier runs among 6: the topic has grown",
    )
    again = judge(_hashed(_by(partitioner, 12)), judged.fits, 12, ALLOWED)
    assert (again.events, int(again.misplaced.sum())) == ((), 0)


def test_keys_that_fit_neither_count_of_a_grown_topic_are_misplaced() -> None:
    rows = _by(Partitioner.MURMUR2, 12)
    strange = [(key, (partition + 5) % 12, producer) for key, partition, producer in rows[:3]]
    judged = judge(_hashed([*strange, *rows[3:]]), _all(Partitioner.MURMUR2, 6), 12, ALLOWED)
    assert judged.fits == _all(Partitioner.MURMUR2, 12)
    assert 0 < judged.misplaced.sum() <= len(strange)


def test_producers_with_partitioners_of_their_own_are_reported_apart() -> None:
    java, native = _by(Partitioner.MURMUR2, 6, KEYS[:200], 1), _by(Partitioner.CONSISTENT, 6, KEYS[200:], 2)
    keys = _hashed([*java, *native])
    fits = find_fits(keys, 6, ALLOWED)
    assert fits == {1: Fit(Partitioner.MURMUR2, 6), 2: Fit(Partitioner.CONSISTENT, 6)}
    assert not misplaced(keys, fits).any()
    new = _by(Partitioner.FNV1A, 6, KEYS[:100], 3)
    judged = judge(_hashed([*java, *native, *new]), fits, 6, ALLOWED)
    assert judged.fits == {**fits, 3: Fit(Partitioner.FNV1A, 6)}
    changed = judge(_hashed([*java, *_by(Partitioner.MURMUR2, 6, KEYS[200:], 2)]), fits, 6, ALLOWED)
    assert changed.fits == _all(Partitioner.MURMUR2, 6)
    assert changed.misplaced.sum() > 100


def test_a_second_client_that_places_otherwise_is_a_change() -> None:
    rows = [*_by(Partitioner.MURMUR2, 6, KEYS[:200], 1), *_by(Partitioner.CONSISTENT, 6, KEYS[200:], 2)]
    judged = judge(_hashed(rows), _all(Partitioner.MURMUR2, 6), 6, ALLOWED)
    assert set(judged.fits) == {1, 2}
    assert judged.misplaced[:200].sum() == 0 < judged.misplaced[200:].sum()
    assert not judge(_hashed(rows), judged.fits, 6, ALLOWED).misplaced.any()


def test_what_is_established_is_read_as_it_was_written() -> None:
    fits = {"orders": {1: Fit(Partitioner.MURMUR2, 6)}, "clicks": dict(_all(Partitioner.NONE, 3))}
    assert read_fits(fits_table(fits)) == fits
    assert read_fits(None) == {}


@pytest.mark.parametrize("allowed", [0.0, 0.01, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("strange", [0, 3, 60, 250])
def test_counts_that_the_first_keys_rule_out_would_not_have_been_found(allowed: float, strange: int) -> None:
    rows = [*_own(5, KEYS[:strange]), *_by(Partitioner.MURMUR2, 5, KEYS[strange:])]
    keys = _hashed(rows)
    hashes = keys.hashes[:, 0]
    wrong = {count: int(np.count_nonzero(hashes % count != keys.partition)) for count in range(5, 4097)}
    best = min(wrong, key=lambda count: wrong[count])
    most = int(allowed * len(KEYS))
    found = likeliest_count(hashes, keys.partition, 5, most_wrong=most)
    assert found == (best if wrong[best] <= most else None)
