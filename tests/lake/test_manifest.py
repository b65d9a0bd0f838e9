from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.lake.errors import BrokenRun, sealed, unsealed
from spark_jobs.lake.manifest import (
    NO_PARTITION,
    Manifest,
    ManifestEntry,
    ObjectRole,
    Replay,
    SetAside,
    StageProblem,
    read_manifest,
)

DAY = date(2024, 5, 1)
ENTRY = ManifestEntry(
    order=0,
    source="gateway",
    role=ObjectRole.CAPTURE,
    topic="orders",
    partition=3,
    day="2024-05-01",
    path="dt=2024-05-01/orders-3/0001.bin",
    size=42,
    sha256="ab" * 32,
    version="etag",
)
PROBLEM = StageProblem(source="gateway", path="orders-3/0002.bin", reason=SetAside.VANISHED, detail="gone")
"""As an earlier version wrote it; the second entry is marked as `rewritten`."""
MANIFEST = Manifest(day=DAY, entries=(ENTRY,), problems=(PROBLEM,))

PROBLEMS = st.builds(
    StageProblem, source=st.text(), path=st.text(), reason=st.sampled_from(SetAside), detail=st.text()
)
ENTRIES = st.builds(
    ManifestEntry,
    order=st.integers(0, 2**31),
    source=st.text(),
    role=st.sampled_from(ObjectRole),
    topic=st.text(),
    partition=st.integers(NO_PARTITION, 2**31 - 1),
    day=st.text(),
    path=st.text(),
    size=st.integers(0, 2**63),
    sha256=st.text(),
    version=st.text(),
    referenced=st.booleans(),
    seen=st.booleans(),
    topic_id=st.text(),
)
MANIFESTS = st.builds(
    Manifest, day=st.dates(), entries=st.lists(ENTRIES).map(tuple), problems=st.lists(PROBLEMS).map(tuple)
)


@given(MANIFESTS)
def test_what_is_written_is_read(manifest: Manifest) -> None:
    assert read_manifest(manifest.to_bytes(), source="test") == manifest


def test_a_name_that_is_not_utf8_survives() -> None:
    odd = Manifest(day=DAY, problems=(replace(PROBLEM, path="bad\udcff"),))
    assert read_manifest(odd.to_bytes(), source="test") == odd


@pytest.mark.parametrize("inherited", ["", "ab" * 32])
def test_a_replay_is_read_back_with_and_without_an_inherited_row(inherited: str) -> None:
    replay = Replay(
        decision="3f9a0c12ab34cd56",
        way="decode" if inherited else "arrive",
        kind="corrupt",
        origin="2024-04-30-3f9a0c12ab34cd56",
        topic="orders",
        partition=3,
        source="gateway",
        path="dt=2024-04-30/orders-3/0001.bin",
        position=0,
        arrival=0,
        size=42,
        sha256="cd" * 32,
        inherited=inherited,
        why="the producer was repaired",
    )
    manifest = replace(MANIFEST, replays=(replay,))
    assert read_manifest(manifest.to_bytes(), source="test") == manifest


DECISIVE = [
    replace(ENTRY, order=1),
    replace(ENTRY, source="other"),
    replace(ENTRY, role=ObjectRole.LOG),
    replace(ENTRY, topic="other"),
    replace(ENTRY, partition=4),
    replace(ENTRY, path="other"),
    replace(ENTRY, size=43),
    replace(ENTRY, sha256="cd" * 32),
    replace(ENTRY, seen=True),
    replace(ENTRY, topic_id="25SNuNZhRx2La2_fVdm_UQ"),
]


@pytest.mark.parametrize("changed", DECISIVE)
def test_the_digest_changes_with_whatever_decides_the_outcome(changed: ManifestEntry) -> None:
    assert replace(MANIFEST, entries=(changed,)).digest != MANIFEST.digest


@pytest.mark.parametrize("changed", [replace(ENTRY, version="other"), replace(ENTRY, referenced=True)])
def test_the_digest_does_not_depend_on_where_the_bytes_are_stored(changed: ManifestEntry) -> None:
    assert replace(MANIFEST, entries=(changed,)).digest == MANIFEST.digest


def test_the_digest_names_what_was_set_aside_but_not_in_which_words() -> None:
    reworded = replace(MANIFEST, problems=(replace(PROBLEM, detail="other words"),))
    another = replace(MANIFEST, problems=(replace(PROBLEM, reason=SetAside.CHANGED),))
    assert reworded.digest == MANIFEST.digest
    assert len({MANIFEST.digest, another.digest, replace(MANIFEST, problems=()).digest}) == 3


def test_the_digest_stays_what_it_was_when_this_was_written() -> None:
    assert MANIFEST.digest == "c3849f5ea5d0956786e575a880d067cb03398f40c51c15de45a7469f97484387"


@pytest.mark.parametrize("number", [1, 3])
def test_a_manifest_of_another_format_is_refused(number: int) -> None:
    lines = unsealed(MANIFEST.to_bytes(), source="lake/m")
    other = sealed(lines.replace(b'"format":2', b'"format":%d' % number))
    with pytest.raises(BrokenRun, match=f"lake/m: manifest format {number}, this version reads 2"):
        read_manifest(other, source="lake/m")


def test_an_entry_knows_its_copy_of_a_partition_and_its_log_directory() -> None:
    log = replace(ENTRY, path="broker-1/data/orders-3/00000000000000000000.log")
    checkpoint = replace(ENTRY, path="broker-1/data/meta.properties", topic="", partition=NO_PARTITION)
    assert (log.name, log.directory) == ("00000000000000000000.log", "broker-1/data/orders-3")
    assert log.log_directory == checkpoint.log_directory == "broker-1/data"


def test_only_captures_and_segments_hold_batches() -> None:
    entries = tuple(replace(ENTRY, role=role, order=number) for number, role in enumerate(ObjectRole))
    found = {entry.role for entry in Manifest(day=DAY, entries=entries).batches}
    assert found == {ObjectRole.CAPTURE, ObjectRole.LOG, ObjectRole.SWAP}
