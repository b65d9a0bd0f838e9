"""Keys of a copy that lacks partitions are not taken for keys in the wrong place."""

import numpy as np
import pytest

from spark_jobs.auditing.key_places import ALL_HASHES, KeyHashes, count_keys, recount
from spark_jobs.auditing.partition_counts import keys_elsewhere
from spark_jobs.protocol.hashes import partition_for_key

KEYS = [f"key {number}".encode() for number in range(400)]
ALLOWED = 0.01


def _hashes(placed: dict[bytes, int]) -> list[KeyHashes]:
    hashes = np.array([partition_for_key(key, ALL_HASHES) for key in placed], dtype=np.int64)
    return [KeyHashes(partition=np.array(list(placed.values()), dtype=np.int64), hash=hashes)]


@pytest.mark.parametrize(("count", "seen"), [(12, {0, 1, 2}), (7, {3}), (50, {0, 49}), (3, {0, 1, 2})])
def test_a_count_that_explains_the_keys_is_found_though_partitions_are_missing(
    count: int, seen: set[int]
) -> None:
    placed = {key: partition_for_key(key, count) for key in KEYS}
    found = recount("t", _hashes({k: p for k, p in placed.items() if p in seen}), max(seen) + 1, ALLOWED)
    assert found == {("t", number): 0 for number in seen}


def test_keys_that_somebody_else_has_placed_stay_elsewhere() -> None:
    placed = {key: number % 3 for number, key in enumerate(KEYS)}
    assert recount("t", _hashes(placed), 3, ALLOWED) == {}


def test_a_few_keys_elsewhere_do_not_hide_the_count() -> None:
    placed = {key: partition_for_key(key, 12) for key in KEYS}
    seen = {key: number for key, number in placed.items() if number < 3}
    strange = next(iter(seen))
    found = recount("t", _hashes(seen | {strange: (seen[strange] + 1) % 3}), 3, 0.05)
    assert sum(found.values()) == 1


def test_a_partition_s_keys_are_counted_by_themselves() -> None:
    placed = {key: partition_for_key(key, 3) for key in KEYS}
    (keys,) = _hashes(placed)
    own = sum(number == 1 for number in placed.values())
    assert count_keys(keys, 1, 3) == {"keys_sampled": own, "keys_elsewhere": 0}
    assert 0 < count_keys(keys, 1, 4)["keys_elsewhere"] < own


@pytest.mark.parametrize("allowed", [0.0, 0.01, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("misplaced", [0, 3, 60, 250])
def test_counts_that_the_first_keys_rule_out_would_not_have_been_found(
    allowed: float, misplaced: int
) -> None:
    placed = {key: partition_for_key(key, 5) for key in KEYS}
    placed |= {key: number % 5 for number, key in enumerate(KEYS[:misplaced])}
    (keys,) = _hashes(placed)
    wrong = {count: keys_elsewhere(keys.hash, keys.partition, count) for count in range(5, 4097)}
    likeliest = min(wrong, key=lambda count: int(wrong[count].sum()))
    expected = {
        ("t", number): int(wrong[likeliest][keys.partition == number].sum())
        for number in range(5)
        if wrong[likeliest].sum() <= allowed * len(KEYS)
    }
    assert recount("t", [keys], 5, allowed) == expected
