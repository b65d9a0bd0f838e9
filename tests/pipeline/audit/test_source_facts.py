"""What a run finds in its sources, by its manifest and that of the run before."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.lake.manifest import BareSource, Manifest, ManifestEntry, ObjectRole, SetAside, StageProblem
from spark_jobs.pipeline.audit.source_facts import source_facts

SOURCES = [
    {"name": "broker", "kind": "broker-log", "root": "/broker"},
    {"name": "gateway", "kind": "capture", "root": "/gateway", "dates": "%Y/%m/%d"},
]
SETTINGS = Settings.model_validate({"lake": "/lake", "sources": SOURCES})
DAY = date(2024, 5, 2)


def _entry(partition: str, source: str = "broker", role: ObjectRole = ObjectRole.LOG) -> ManifestEntry:
    topic, _, number = partition.rpartition("-")
    return ManifestEntry(
        order=0,
        source=source,
        role=role,
        topic=topic,
        partition=int(number),
        path=f"{partition}/0.log",
        size=1,
        sha256="",
    )


def _manifest(*partitions: str, bare: tuple[BareSource, ...] = ()) -> Manifest:
    captured = _entry("clicks-0", "gateway", ObjectRole.CAPTURE)
    return Manifest(day=DAY, entries=(*map(_entry, partitions), captured), bare_sources=bare)


def _facts(manifest: Manifest, before: Manifest | None = None) -> dict[str, dict[str, Any]]:
    return {row["source"]: row for row in source_facts(SETTINGS, manifest, before).to_pylist()}


def test_sources_with_something_new_are_well() -> None:
    for row in _facts(_manifest("orders-0")).values():
        assert (row["objects"], row["new_objects"], row["remark"]) == (1, 1, "")
        assert not any(row[name] for name in ("is_empty", "is_unrecognised", "is_stale"))


def test_objects_that_an_earlier_run_has_read_are_not_new() -> None:
    seen = replace(_entry("orders-0"), seen=True)
    row = _facts(Manifest(day=DAY, entries=(seen,)))["broker"]
    assert (row["objects"], row["new_objects"], row["is_stale"]) == (1, 0, 1)


@pytest.mark.parametrize("is_known", [True, False])
def test_only_a_source_by_date_that_has_brought_something_may_be_empty(is_known: bool) -> None:
    bare = [BareSource(bare=name, objects=0, is_known=is_known, detail="") for name in ("broker", "gateway")]
    facts = _facts(Manifest(day=DAY, bare_sources=tuple(bare)))
    assert {name: row["is_empty"] for name, row in facts.items()} == {
        "broker": 1,
        "gateway": int(not is_known),
    }


def test_a_backfill_of_a_source_that_was_purged_has_its_kept_objects() -> None:
    bare = BareSource(bare="gateway", objects=0, is_known=False, detail="no objects")
    row = _facts(_manifest("orders-0", bare=(bare,)))["gateway"]
    assert (row["objects"], row["is_empty"], row["remark"]) == (1, 0, "")


def test_partitions_are_missed_that_the_last_copy_had() -> None:
    before = _manifest(*(f"orders-{number}" for number in range(9)))
    row = _facts(_manifest("orders-0"), before)["broker"]
    assert row["vanished_partitions"] == 8
    assert "orders-1, orders-2, orders-3, orders-4, orders-5 and 3 more had segments" in row["remark"]


@pytest.mark.parametrize(
    ("reason", "counted"), [(SetAside.UNREADABLE, 1), (SetAside.DAMAGED, 1), (SetAside.CHANGED, 0)]
)
def test_objects_that_cannot_be_read_count_apart_for_logs_and_captures(
    reason: SetAside, counted: int
) -> None:
    problems = tuple(
        StageProblem(source=name, path="orders-0/1", reason=reason, detail="denied")
        for name in ("broker", "gateway")
    )
    facts = _facts(replace(_manifest("orders-0"), problems=problems))
    assert (facts["broker"]["unreadable_objects"], facts["broker"]["unreadable_captures"]) == (counted, 0)
    assert (facts["gateway"]["unreadable_objects"], facts["gateway"]["unreadable_captures"]) == (0, counted)
    assert ("orders-0/1 cannot be read: denied" in facts["gateway"]["remark"]) == bool(counted)


def test_a_captured_partition_may_be_quiet() -> None:
    before = _manifest("orders-0")
    quiet = Manifest(day=DAY, entries=(_entry("orders-0"),))
    assert _facts(quiet, before)["gateway"]["vanished_partitions"] == 0


def test_a_partition_that_another_source_has_now_is_not_missed() -> None:
    moved = Manifest(day=DAY, entries=(_entry("orders-0"), _entry("orders-1", "gateway")))
    assert _facts(moved, _manifest("orders-0", "orders-1"))["broker"]["vanished_partitions"] == 0


def test_a_topic_that_was_recreated_does_not_miss_its_old_partitions() -> None:
    before = _manifest("orders-0", "orders-1", "payments-0")
    row = _facts(_manifest("orders~2-0"), before)["broker"]
    assert row["vanished_partitions"] == 1
    assert row["remark"].startswith("payments-0 had segments")


@pytest.mark.parametrize(
    ("before", "now", "vanished"),
    [
        (["orders-0", "orders-1"], ["orders~2-0"], 0),
        (["orders-0", "orders~2-0"], ["orders~2-0"], 0),
        (["orders-0", "orders~2-0"], ["orders-0"], 1),
        (["orders~2-0", "orders~2-1"], ["orders~2-0"], 1),
        (["orders~9-0"], ["orders~10-0"], 0),
    ],
)
def test_a_log_that_a_newer_one_of_its_topic_has_replaced_may_go(
    before: list[str], now: list[str], vanished: int
) -> None:
    found = _facts(_manifest(*now), _manifest(*before))["broker"]
    assert found["vanished_partitions"] == vanished
