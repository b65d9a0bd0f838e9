"""Who reads what: every byte once, in arrival order, in shares that fit a worker."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.load import parse_settings
from spark_jobs.lake.layout import object_key
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.pipeline.context import fair_share, pack
from spark_jobs.pipeline.index.step import LARGEST_TASK, pack_tasks, plan_bins

MIB = 2**20
SETTINGS = parse_settings(
    """
lake: /lake
sources:
  - {name: gateway, kind: capture, root: /captures}
  - {name: brokers, kind: broker-log, root: /logs, immutable: true}
limits: {range_bytes: 1MiB}
""",
    name="test.yaml",
    base=Path("/"),
)


def _capture(order: int, size: int, topic: str = "orders", partition: int = 0) -> ManifestEntry:
    return ManifestEntry(
        order=order,
        source="gateway",
        role=ObjectRole.CAPTURE,
        topic=topic,
        partition=partition,
        path=f"{topic}-{partition}/{order:09d}",
        size=size,
        sha256=f"{order:064x}",
    )


@given(st.lists(st.tuples(st.integers(0, 3 * MIB), st.integers(0, 2)), max_size=20))
def test_every_byte_is_read_once_and_in_arrival_order(objects: list[tuple[int, int]]) -> None:
    entries = [_capture(order, size, partition=where) for order, (size, where) in enumerate(objects)]

    bins = plan_bins(entries, SETTINGS)

    for partition in range(3):
        pieces = [
            piece for each in bins if each.copy.partition.partition == partition for piece in each.pieces
        ]
        own = [entry for entry in entries if entry.partition == partition]
        assert [piece.object_order for piece in pieces if piece.start == 0] == [entry.order for entry in own]
        assert sum(piece.stop - piece.start for piece in pieces) == sum(entry.size for entry in own)
        for before, after in pairwise(pieces):
            assert after.start in {0, before.stop}


@given(st.lists(st.integers(0, 3 * MIB), max_size=20))
def test_no_bin_is_larger_than_a_range_and_a_quarter(sizes: list[int]) -> None:
    bins = plan_bins([_capture(order, size) for order, size in enumerate(sizes)], SETTINGS)

    assert all(each.bytes <= MIB * 5 // 4 for each in bins)
    assert all(each.bytes <= MIB and len(each.pieces) == 1 for each in bins if each.is_part)


def test_a_small_object_goes_with_the_full_one_before_it() -> None:
    bins = plan_bins([_capture(0, MIB), _capture(1, 10), _capture(2, MIB), _capture(3, MIB // 2)], SETTINGS)

    assert [[piece.object_order for piece in each.pieces] for each in bins] == [[0, 1], [2], [3]]


def test_a_part_of_a_large_object_is_a_file_of_its_own_and_only_the_first_boundary_is_known() -> None:
    bins = plan_bins([_capture(0, 10), _capture(1, 2 * MIB + 5), _capture(2, 10)], SETTINGS)

    assert [[piece.start for piece in each.pieces] for each in bins] == [[0], [0], [MIB], [2 * MIB], [0]]
    assert [each.is_part for each in bins] == [False, True, True, True, False]
    assert [each.pieces[0].boundary for each in bins] == [0, 0, None, None, 0]


def test_files_of_a_copy_sort_in_arrival_order() -> None:
    bins = plan_bins([_capture(order, MIB) for order in range(12)], SETTINGS)

    assert len(bins) == 12
    assert sorted(each.file for each in bins) == [each.file for each in bins]


def test_replicas_are_reported_apart_by_their_directories() -> None:
    entries = [
        ManifestEntry(
            order=order,
            source="brokers",
            role=ObjectRole.LOG,
            topic="orders",
            partition=0,
            path=f"{broker}/orders-0/{order:020d}.log",
            size=10,
            sha256="ab" * 32,
        )
        for order, broker in enumerate(["b1", "b2", "b1", "b2"])
    ]

    bins = plan_bins(entries, SETTINGS)

    assert [(each.copy.number, each.copy.directory) for each in bins] == [
        (0, "b1/orders-0"),
        (1, "b2/orders-0"),
    ]
    assert [[piece.object_order for piece in each.pieces] for each in bins] == [[0, 2], [1, 3]]


@pytest.mark.parametrize("referenced", [True, False])
def test_referenced_objects_are_read_at_their_source_in_their_version(*, referenced: bool) -> None:
    entry = ManifestEntry(
        order=0,
        source="brokers",
        role=ObjectRole.LOG,
        topic="orders",
        partition=0,
        path="b1/orders-0/0.log",
        size=10,
        sha256="ab" * 32,
        version="v1",
        referenced=referenced,
    )

    [piece] = plan_bins([entry], SETTINGS)[0].pieces

    copied = ("/lake", object_key("ab" * 32), "")
    at_source = ("/logs", "b1/orders-0/0.log", "v1")
    assert (piece.store, piece.key, piece.version) == (at_source if referenced else copied)


@given(st.lists(st.integers(1, 50)), st.integers(1, 100))
def test_packing_keeps_order_and_loses_nothing(costs: list[int], most: int) -> None:
    packed = list(pack(costs, cost=int, most=most))

    assert [cost for together in packed for cost in together] == costs
    assert all(sum(together) <= most or len(together) == 1 for together in packed)


@given(st.integers(1, 100), st.integers(1, 12), st.integers(1, 50))
def test_things_of_equal_cost_become_no_more_tasks_than_wanted(each: int, tasks: int, cost: int) -> None:
    costs = [cost] * each * tasks
    most = fair_share(costs, tasks=tasks, smallest=1, largest=10**9)

    packed = list(pack(costs, cost=int, most=most))

    assert len(packed) <= tasks
    assert max(map(len, packed)) <= each + each // 8


@pytest.mark.parametrize(("smallest", "largest", "expected"), [(1, 9, 9), (500, 900, 500), (1, 900, 112)])
def test_no_task_is_too_small_or_too_large(smallest: int, largest: int, expected: int) -> None:
    assert fair_share([400, 400], tasks=8, smallest=smallest, largest=largest) == expected


def test_many_tiny_partitions_share_tasks() -> None:
    bins = plan_bins([_capture(number, 100, partition=number) for number in range(2000)], SETTINGS)

    tasks = list(pack_tasks(bins, parallelism=2))

    assert len(bins) == 2000
    assert 4 <= len(tasks) <= 5


def test_a_large_run_has_tasks_of_bounded_size() -> None:
    bins = plan_bins([_capture(number, 40 * 2**30, partition=number) for number in range(2)], SETTINGS)

    assert max(sum(each.bytes for each in task) for task in pack_tasks(bins, parallelism=2)) <= LARGEST_TASK
