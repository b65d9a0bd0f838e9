"""What `stage` learns of earlier runs from blocks is what all their manifests say."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import TAKEN, step_key
from spark_jobs.lake.manifest import Manifest, ManifestEntry, ObjectRole, Replay
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import MANIFEST
from spark_jobs.sources import taken_blocks
from spark_jobs.sources.inheritance import SegmentHistory
from spark_jobs.sources.taken import Taken
from spark_jobs.sources.taken_blocks import read_taken

FIRST_DAY = date(2024, 5, 1)
CONFIG = """
lake: {root}/lake
sources:
  - {{name: captures, kind: capture, root: {root}/captures, dates: "dt=%Y-%m-%d"}}
  - {{name: copies, kind: broker-log, root: {root}/copies, dates: "%Y-%m-%d"}}
  - {{name: logs, kind: broker-log, root: {root}/logs}}
"""
Where = tuple[str, str]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_blocks, "RUNS_PER_BLOCK", 3)
    monkeypatch.setattr(taken_blocks, "ROWS_PER_GROUP", 4)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return parse_settings(CONFIG.format(root=tmp_path), name="test.yaml", base=tmp_path)


@pytest.fixture
def lake(tmp_path: Path) -> ObjectStore:
    return FileStore(str(tmp_path / "lake"))


def _object(
    draw: random.Random, source: str, role: ObjectRole, path: str, **more: str | int
) -> ManifestEntry:
    content = f"{draw.randrange(3)}" * 64
    return ManifestEntry(
        order=0,
        source=source,
        role=role,
        path=path,
        size=100 + int(content[0]) * 50,
        sha256=content,
        version=f"v{draw.randrange(3)}",
        **more,  # type: ignore[arg-type]
    )


def _entries(draw: random.Random, day: date) -> Iterator[ManifestEntry]:
    for number in range(draw.randrange(4)):
        captured: dict[str, str | int] = {
            "topic": f"orders-{number % 2}",
            "partition": 0,
            "day": day.isoformat(),
        }
        late = day - timedelta(days=draw.randrange(3))
        yield _object(
            draw, "captures", ObjectRole.CAPTURE, f"dt={late}/orders-{number % 2}-0/{number}", **captured
        )
    for source, below in (("copies", f"{day}/"), ("logs", "")):
        if draw.random() < 0.3:
            meta = _object(draw, source, ObjectRole.LOG_DIRECTORY, f"{below}meta.properties")
            yield replace(meta, cluster_id=f"cluster of {source}")
        for partition in range(3):
            named: dict[str, str | int] = {
                "topic": "clicks",
                "partition": partition,
                "topic_id": draw.choice(("", "id-1", "id-2")),
            }
            directory = f"{below}clicks-{partition}"
            yield _object(
                draw, source, ObjectRole.PARTITION_METADATA, f"{directory}/partition.metadata", **named
            )
            for base in range(draw.randrange(4)):
                segment = _object(draw, source, ObjectRole.LOG, f"{directory}/{base * 10:020d}.log", **named)
                if draw.random() < 0.5:
                    segment = replace(
                        segment, inherited=draw.random() < 0.7, inherited_bytes=draw.randrange(100)
                    )
                yield segment


def _manifest(draw: random.Random, day: date) -> Manifest:
    entries = {(each.source, each.path): each for each in _entries(draw, day)}
    numbered = tuple(replace(each, order=order) for order, each in enumerate(entries.values()))
    replays = (_replay(f"decision of {day}"),) if draw.random() < 0.3 else ()
    return Manifest(day=day, entries=numbered, replays=replays)


def _replay(decision: str) -> Replay:
    return Replay(
        decision=decision,
        way="arrive",
        kind="corrupt",
        origin="2024-05-01-x",
        topic="orders",
        partition=0,
        source="captures",
        path="p",
        position=0,
        arrival=0,
        size=1,
        sha256="0",
        why="",
    )


def _put(lake: ObjectStore, manifests: dict[str, Manifest]) -> None:
    for run_id, manifest in manifests.items():
        lake.put(step_key(run_id, Step.STAGE, MANIFEST), manifest.to_bytes())


def _all(manifests: dict[str, Manifest]) -> Taken:
    taken = Taken()
    for run_id, manifest in manifests.items():
        taken.add(manifest, run_id)
    return taken


def _where(entry: ManifestEntry) -> Where:
    return entry.source, entry.path


def _versions(taken: Taken, objects: set[Where]) -> list[ManifestEntry]:
    return [entry for entry in taken.by_version.values() if _where(entry) in objects]


@pytest.mark.parametrize("seed", range(12))
def test_blocks_answer_as_all_manifests_do(settings: Settings, lake: ObjectStore, seed: int) -> None:
    draw = random.Random(seed)
    days = [FIRST_DAY + timedelta(days=number) for number in range(draw.choice((2, 3, 8, 9, 14, 31)))]
    manifests = {f"{day}-run": _manifest(draw, day) for day in days}
    _put(lake, manifests)
    listed = _manifest(draw, draw.choice([*days, days[-1] + timedelta(days=1)]))
    objects = {_where(entry) for entry in listed.entries}

    taken, expected = read_taken(settings, lake, list(manifests), objects), _all(manifests)

    assert _versions(taken, objects) == _versions(expected, objects)
    for where in objects:
        assert taken.contents.get(where) == expected.contents.get(where)
    beside = {(source, path.rpartition("/")[0]) for source, path in objects}
    assert _ids(taken, beside) == _ids(expected, beside)
    assert taken.decisions == expected.decisions
    assert taken.logs == expected.logs
    assert [list(each) for each in taken.logs.values()] == [list(each) for each in expected.logs.values()]
    for facts in (_clusters, _captured, _sources):
        assert facts(taken) == facts(expected)
    inherited = [
        SegmentHistory(settings, lake, each.segments).inherit(listed, {}) for each in (taken, expected)
    ]
    assert inherited[0] == inherited[1]


def _ids(taken: Taken, directories: set[Where]) -> dict[Where, str]:
    return {
        (entry.source, entry.directory): entry.topic_id
        for entry in taken.by_version.values()
        if entry.topic_id and (entry.source, entry.directory) in directories
    }


def _clusters(taken: Taken) -> set[tuple[str, str, str]]:
    entries = taken.by_version.values()
    return {(each.source, each.sha256, each.cluster_id) for each in entries if each.cluster_id}


def _captured(taken: Taken) -> set[str]:
    return {each.topic for each in taken.by_version.values() if each.role is ObjectRole.CAPTURE}


def _sources(taken: Taken) -> set[str]:
    return {source for source, _ in taken.contents}


def test_a_run_reads_few_manifests_and_no_rows_of_other_dates(settings: Settings, lake: ObjectStore) -> None:
    draw = random.Random(0)
    days = [FIRST_DAY + timedelta(days=number) for number in range(29)]
    manifests = {f"{day}-run": _manifest(draw, day) for day in days}
    _put(lake, manifests)
    objects = {_where(entry) for entry in manifests[f"{days[-1]}-run"].entries if entry.source == "captures"}
    read_taken(settings, lake, list(manifests), objects)
    assert len(list(lake.list(TAKEN))) == 9 + 3 + 1

    for run_id in list(manifests)[:27]:
        lake.delete(step_key(run_id, Step.STAGE, MANIFEST))
    taken = read_taken(settings, lake, list(manifests), objects)
    old = [
        each
        for each in taken.by_version.values()
        if each.role is ObjectRole.CAPTURE and each.day < "2024-05-20"
    ]
    assert len(old) <= 4  # the first and the last capture of each of the two topics in the block


def test_a_replaced_run_is_read_from_its_own_manifest(settings: Settings, lake: ObjectStore) -> None:
    draw = random.Random(1)
    days = [FIRST_DAY + timedelta(days=number) for number in range(9)]
    manifests = {f"{day}-run": _manifest(draw, day) for day in days}
    other = {**manifests, f"{days[4]}-other": _manifest(draw, days[4])}
    _put(lake, other)
    objects = {_where(entry) for manifest in other.values() for entry in manifest.entries}
    read_taken(settings, lake, list(manifests), objects)
    replaced = {(f"{day}-other" if day == days[4] else f"{day}-run"): None for day in days}
    taken = read_taken(settings, lake, list(replaced), objects)
    assert _versions(taken, objects) == _versions(_all({each: other[each] for each in replaced}), objects)
