"""Whole runs on tiers made from recordings of a real broker: with the tail they are one log."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.load import InvalidConfig, load_settings
from spark_jobs.config.sources import Source
from spark_jobs.extras import ExtraMissing
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.indexes import AbortedTxn, write_txn_index
from spark_jobs.kafka.formats.record_batch import crc32c, read_header
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.lake.errors import KeyUnfit, StorageError, TopicRecreated
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import Manifest, ObjectRole, SetAside, read_run_manifest
from spark_jobs.lake.object_store import ObjectStat
from spark_jobs.lake.run_folder import MESSAGES
from spark_jobs.lake.stores import open_lake, open_store
from spark_jobs.run import RunOutcome
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.tiered import Tiered
from tests.broker.invariants import differing_tables
from tests.broker.runs import CONFIG, Lake
from tests.faulty_s3 import Fault, Spoiled, faulty_s3
from tests.s3_server import S3Server
from tests.sources.tiers import (
    Aiven,
    Upload,
    partitions_of,
    private_key,
    uploads_of,
    uuid_of,
    write_local,
    write_pinterest,
    write_tail,
)

pytestmark = pytest.mark.usefixtures("great_expectations")

DATA = Path(__file__).parents[1] / "recordings" / "data"
DAY = date(2026, 11, 18)
KEY, OTHER_KEY = private_key(), private_key()
WHOLE = 99
Write = Callable[[Path, Upload], Path]
Rows = list[dict[str, Any]]


def lake_at(place: Path, *sources: str) -> Lake:
    place.mkdir(parents=True, exist_ok=True)
    listed = "\n".join(f"  - {{{each}}}" for each in sources)
    (place / CONFIG).write_text(f"lake: lake\nsources:\n{listed}\n")
    return Lake(place=place, settings=load_settings(place / CONFIG))


def joined(place: Path, layout: str = "local", more: str = "") -> Lake:
    tier = f"name: past, kind: tiered, layout: {layout}, root: tier{more}"
    return lake_at(place, tier, "name: tail, kind: broker-log, root: tail")


def cut(
    data: Path, place: Path, cuts: Mapping[str, int], write: Write = write_local, *, overlap: int = 0
) -> None:
    """The first segments of each partition as uploads in `tier`, the others in `tail`."""
    for directory in partitions_of(data):
        uploads = uploads_of(directory)[: cuts[directory.name]]
        for upload in uploads:
            write(place / "tier", upload)
        kept = uploads[: max(len(uploads) - overlap, 0)]
        write_tail(directory, place / "tail" / directory.name, kept[-1].end if kept else 0)
    for path in data.iterdir():
        if path.is_file():
            shutil.copy2(path, place / "tail")


def everywhere(data: Path, number: int) -> dict[str, int]:
    return {directory.name: number for directory in partitions_of(data)}


def recording(name: str) -> Path:
    return DATA / name / "data"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rows]:
    """The tables of a whole log directory, by the name of the recording."""
    known: dict[str, Rows] = {}

    def tables(name: str) -> Rows:
        if name not in known:
            place = tmp_path_factory.mktemp("whole")
            lake = lake_at(place, f"name: broker, kind: broker-log, root: '{recording(name)}'")
            lake.run(DAY)
            known[name] = lake.full_records()
        return known[name]

    return tables


def expect_same(expected: Rows, lake: Lake) -> None:
    found = list(differing_tables(expected, lake.full_records()))
    assert expected
    assert found == []


def messages(lake: Lake, outcome: RunOutcome, step: Step = Step.ADMIT) -> list[str]:
    store, key = open_lake(lake.settings), step_key(outcome.run_id, step, MESSAGES)
    return [] if store.stat(key) is None else list(json.loads(store.read(key)))


def manifest(lake: Lake, outcome: RunOutcome) -> Manifest:
    return read_run_manifest(open_lake(lake.settings), outcome.run_id)


def first_partition(name: str = "oracle_A") -> Path:
    return recording(name) / "orc-1"


# Any cut between tier and tail.


@pytest.mark.parametrize(("name", "number"), [("oracle_A", 1), ("oracle_A", WHOLE), ("restarts_tv2", 2)])
def test_a_cut_between_tier_and_tail_gives_the_tables_of_the_whole_log(
    name: str, number: int, tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    cut(recording(name), tmp_path, everywhere(recording(name), number))
    lake = joined(tmp_path)
    lake.run(DAY)
    expect_same(whole(name), lake)


@pytest.mark.parametrize("seed", range(2))
def test_every_partition_may_be_cut_elsewhere_and_overlap(
    seed: int, tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    data, random = recording("workload_clean"), Random(seed)
    cuts = {directory.name: random.randrange(12) for directory in partitions_of(data)}
    cut(data, tmp_path, cuts, overlap=random.randrange(3))
    for path in data.glob("__*"):
        shutil.copytree(path, tmp_path / "tail" / path.name)
    lake = joined(tmp_path)
    lake.run(DAY)
    expect_same(whole("workload_clean"), lake)


AIVEN = {
    "plain": Aiven(),
    "zstd": Aiven(is_compressed=True),
    "aes": Aiven(public_key=KEY.public_key()),
    "zstd and aes": Aiven(is_compressed=True, public_key=KEY.public_key()),
    "prefix": Aiven(is_compressed=True, key_prefix="some/where-"),
}


@pytest.mark.parametrize("name", AIVEN)
def test_objects_of_aivens_plugin_are_decoded(
    name: str, tmp_path: Path, whole: Callable[[str], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIER_KEY", KEY.export_key().decode())
    cut(recording("oracle_A"), tmp_path, everywhere(recording("oracle_A"), WHOLE), AIVEN[name].write)
    more = ", key_prefix: where-" if AIVEN[name].key_prefix else ""
    lake = joined(tmp_path, "aiven", f", encryption_keys: {{key-1: 'env:TIER_KEY'}}{more}")
    outcome = lake.run(DAY)
    expect_same(whole("oracle_A"), lake)
    roles = {entry.role for entry in manifest(lake, outcome).entries if entry.source == "past"}
    assert roles == {ObjectRole.LOG, ObjectRole.SNAPSHOT, ObjectRole.LEADER_EPOCHS, ObjectRole.TXN_INDEX}


def test_a_key_prefix_that_is_not_configured_stops_the_run(tmp_path: Path) -> None:
    AIVEN["prefix"].write(tmp_path / "tier", uploads_of(first_partition())[0])
    lake = lake_at(tmp_path, "name: past, kind: tiered, layout: aiven, root: tier")
    with pytest.raises(StorageError, match="set key_prefix: 'where-'"):
        lake.run(DAY)


@pytest.mark.parametrize("more", ["", ", immutable: true"])
def test_objects_of_pinterests_uploader_are_plain_segments(
    more: str, tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    cut(recording("oracle_A"), tmp_path, everywhere(recording("oracle_A"), WHOLE), write_pinterest)
    lake = joined(tmp_path, "pinterest", more)
    lake.run(DAY)
    expect_same(whole("oracle_A"), lake)


# Runs of several days.


def test_an_upload_is_taken_once_and_a_later_one_continues_the_log(
    tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    data, lake = recording("oracle_A"), joined(tmp_path)
    for number in range(1, 4):
        shutil.rmtree(tmp_path / "tail", ignore_errors=True)
        cut(data, tmp_path, everywhere(data, number))
        outcome = lake.run(DAY + timedelta(days=number))
        taken = [
            entry.name
            for entry in manifest(lake, outcome).entries
            if entry.source == "past" and entry.role is ObjectRole.LOG and entry.topic == "lat"
        ]
        assert len(taken) == (1 if number <= 2 else 0)
    expect_same(whole("oracle_A"), lake)


def test_a_tier_without_its_tail_gives_the_closed_segments(
    tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    data = recording("oracle_A")
    cut(data, tmp_path, everywhere(data, WHOLE))
    lake = lake_at(tmp_path, "name: past, kind: tiered, layout: local, root: tier, immutable: true")
    lake.run(DAY)
    ends = {each.name: uploads_of(each)[-1].end for each in partitions_of(data)}
    expected = [
        row for row in whole("oracle_A") if row["offset"] < ends[f"{row['topic']}-{row['partition']}"]
    ]
    expect_same(expected, lake)


# Uploads that overlap, are incomplete or missing.


def test_a_retried_upload_collapses(tmp_path: Path, whole: Callable[[str], Rows]) -> None:
    data = recording("oracle_A")
    cut(data, tmp_path, everywhere(data, WHOLE))
    for directory in partitions_of(data):
        for upload in uploads_of(directory):
            write_local(tmp_path / "tier", upload, attempt=1)
            write_local(tmp_path / "tier", upload, attempt=2)
    lake = joined(tmp_path)
    outcome = lake.run(DAY)
    expect_same(whole("oracle_A"), lake)
    assert messages(lake, outcome) == []


def test_uploads_of_leaders_with_other_segment_borders_collapse(
    tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    data = recording("oracle_A")
    cut(data, tmp_path, everywhere(data, WHOLE))
    for directory in partitions_of(data):
        uploads = uploads_of(directory)
        if len(uploads) > 1:
            one, other = uploads[:2]
            merged = Upload(
                topic=one.topic,
                partition=one.partition,
                topic_id=one.topic_id,
                start=one.start,
                end=other.end,
                log=one.log + other.log,
                snapshot=other.snapshot,
                epochs=other.epochs,
            )
            write_local(tmp_path / "tier", merged, attempt=1)
    lake = joined(tmp_path)
    outcome = lake.run(DAY)
    expect_same(whole("oracle_A"), lake)
    assert messages(lake, outcome) == []


@pytest.mark.parametrize(
    ("layout", "part"), [("local", "snapshot"), ("local", "log"), ("aiven", "rsm-manifest")]
)
def test_an_incomplete_upload_is_set_aside_until_it_is_whole(
    layout: str, part: str, tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    data, write = recording("oracle_A"), write_local if layout == "local" else Aiven().write
    cut(data, tmp_path, everywhere(data, WHOLE), write)
    upload = uploads_of(first_partition())[-1]
    missing = write(tmp_path / "tier", upload).with_suffix(f".{part}")
    content = missing.read_bytes()
    missing.unlink()
    lake = joined(tmp_path, layout)
    outcome = lake.run(DAY)
    (problem,) = manifest(lake, outcome).problems
    assert problem.reason is SetAside.INCOMPLETE
    assert f"without {part}:" in problem.detail
    assert any(
        f"orc-1: offsets {upload.start} to {upload.end - 1} are in no copy" in each
        for each in messages(lake, outcome)
    )
    missing.write_bytes(content)
    lake.run(DAY + timedelta(days=1))
    expect_same(whole("oracle_A"), lake)


@pytest.mark.parametrize(("layout", "step"), [("local", "describe"), ("aiven", "content")])
def test_an_upload_that_is_deleted_during_the_run_is_set_aside(
    layout: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before `stage` reads where it ends, and before it is copied."""
    data, write = recording("oracle_A"), write_local if layout == "local" else Aiven().write
    cut(data, tmp_path, everywhere(data, WHOLE), write)
    upload = uploads_of(first_partition())[-1]
    log, real = write(tmp_path / "tier", upload), getattr(Tiered, step)

    def deleting(*arguments: Any) -> Any:
        log.unlink(missing_ok=True)
        return real(*arguments)

    monkeypatch.setattr(Tiered, step, deleting)
    lake = joined(tmp_path, layout)
    outcome = lake.run(DAY)
    (problem,) = manifest(lake, outcome).problems
    assert problem.reason is SetAside.VANISHED
    (message,) = messages(lake, outcome)
    assert f"orc-1: offsets {upload.start} to {upload.end - 1} are in no copy" in message


def test_leader_epochs_decide_between_uploads_that_differ(tmp_path: Path) -> None:
    """A leader that was cut off uploads what its successor has overwritten."""
    before = uploads_of(first_partition())
    data = elected(tmp_path / "data", before[1].start)
    cut(data, tmp_path, everywhere(data, WHOLE))
    for upload in before[1:]:
        write_local(tmp_path / "tier", replace(upload, log=with_other_timestamp(upload.log)), attempt=1)
    lake = joined(tmp_path)
    lake.run(DAY)
    alone = lake_at(tmp_path / "alone", f"name: broker, kind: broker-log, root: '{data}'")
    alone.run(DAY)
    expect_same(alone.full_records(), lake)


def elected(data: Path, start: int) -> Path:
    """The first partition, with a new leader whose epoch begins at `start`."""
    directory = Path(shutil.copytree(first_partition(), data / first_partition().name))
    (directory / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n1 {start}\n")
    for path in directory.glob("*.log"):
        if int(path.stem) >= start:
            log, position = bytearray(path.read_bytes()), 0
            while position < len(log):
                log[position + 12 : position + 16] = (1).to_bytes(4, "big")
                position += read_header(memoryview(log), position).size
            path.write_bytes(log)
    return data


def with_other_timestamp(log: bytes) -> bytes:
    """The segment with another timestamp in its first batch."""
    header = read_header(log)
    batch = bytearray(log[: header.size])
    batch[27:35] = (header.base_timestamp - 1000).to_bytes(8, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch) + log[header.size :]


def test_a_snapshot_has_the_offset_where_its_segment_ends(tmp_path: Path) -> None:
    cut(recording("oracle_A"), tmp_path, everywhere(recording("oracle_A"), WHOLE))
    lake = joined(tmp_path)
    entries = manifest(lake, lake.run(DAY)).entries
    found = {
        f"{entry.topic}-{entry.partition}": entry.state_offset
        for entry in entries
        if entry.source == "past" and entry.role is ObjectRole.SNAPSHOT
    }
    assert found == {each.name: uploads_of(each)[-1].end for each in partitions_of(recording("oracle_A"))}


def test_another_topic_id_is_another_log(tmp_path: Path) -> None:
    data = recording("oracle_A")
    cut(data, tmp_path, everywhere(data, 1))
    for path in (tmp_path / "tier").iterdir():
        path.rename(path.with_name(path.name[:-22] + uuid_of("another")))
    lake = joined(tmp_path)
    with pytest.raises(TopicRecreated, match="2 topic ids"):
        lake.run(DAY)


# The cross-check.


@pytest.mark.parametrize("layout", ["local", "aiven"])
def test_a_transaction_index_that_differs_from_the_markers_is_reported(layout: str, tmp_path: Path) -> None:
    data, write = recording("restarts_tv2"), write_local if layout == "local" else Aiven().write
    cut(data, tmp_path, everywhere(data, WHOLE), write)
    directory = next(each for each in partitions_of(data) if uploads_of(each))
    invented = AbortedTxn(producer_id=4711, first_offset=0, last_offset=2, last_stable_offset=3)
    write(tmp_path / "tier", replace(uploads_of(directory)[0], txn_index=write_txn_index([invented])))
    lake = joined(tmp_path, layout)
    found = messages(lake, lake.run(DAY))
    assert any(
        "producer 4711 from offset 0 to its marker at 2; the markers do not show it" in each for each in found
    )


# Objects that cannot be decoded.


def encrypted(place: Path) -> Path:
    """A tier of one encrypted partition; returns the path of its first segment."""
    write = AIVEN["zstd and aes"].write
    paths = [write(place / "tier", upload) for upload in uploads_of(first_partition())]
    (place / "key.pem").write_bytes(KEY.export_key())
    return paths[0]


def aiven_lake(place: Path, keys: str) -> Lake:
    return lake_at(place, f"name: past, kind: tiered, layout: aiven, root: tier, encryption_keys: {keys}")


def test_a_damaged_chunk_sets_its_segment_aside_and_holds_what_follows(tmp_path: Path) -> None:
    path = encrypted(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    lake = aiven_lake(tmp_path, f"{{key-1: 'file:{tmp_path}/key.pem'}}")
    (problem,) = manifest(lake, lake.run(DAY)).problems
    assert problem.reason is SetAside.DAMAGED
    assert "its AES-GCM tag does not match" in problem.detail
    assert "chunk" in problem.detail


def test_a_truncated_object_sets_its_segment_aside(tmp_path: Path) -> None:
    path = encrypted(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    lake = aiven_lake(tmp_path, f"{{key-1: 'file:{tmp_path}/key.pem'}}")
    (problem,) = manifest(lake, lake.run(DAY)).problems
    assert problem.reason is SetAside.DAMAGED


def test_a_damaged_manifest_sets_its_segment_aside(tmp_path: Path) -> None:
    path = encrypted(tmp_path).with_suffix(".rsm-manifest")
    path.write_text(path.read_text()[:-10])
    lake = aiven_lake(tmp_path, f"{{key-1: 'file:{tmp_path}/key.pem'}}")
    (problem,) = manifest(lake, lake.run(DAY)).problems
    assert problem.reason is SetAside.DAMAGED
    assert "corrupt manifest" in problem.detail


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("{api-key-2: 'file:key.pem'}", "encrypted with the key 'key-1', configured are: api-key-2"),
        ("{key-1: 'env:NO_SUCH_KEY'}", "the environment variable NO_SUCH_KEY is not set"),
        ("{key-1: 'file:/no/such.pem'}", "/no/such.pem cannot be read"),
        ("{key-1: 'env:OTHER_KEY'}", "does not open the data key that 'key-1' encrypted"),
        ("{key-1: 'env:PUBLIC_KEY'}", "is a public key"),
        ("{key-1: 'env:NO_PEM'}", "is no RSA private key in PEM format"),
    ],
)
def test_a_wrong_key_stops_the_run(
    keys: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted(tmp_path)
    monkeypatch.setenv("OTHER_KEY", OTHER_KEY.export_key().decode())
    monkeypatch.setenv("PUBLIC_KEY", KEY.public_key().export_key().decode())
    monkeypatch.setenv("NO_PEM", "-----BEGIN nothing-----")
    with pytest.raises(KeyUnfit, match=sentence):
        aiven_lake(tmp_path, keys).run(DAY)


def test_without_the_extra_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted(tmp_path)
    monkeypatch.setitem(sys.modules, "Crypto", None)
    with pytest.raises(ExtraMissing, match=r"needs the extra `tiered` \(Crypto not found\)"):
        aiven_lake(tmp_path, f"{{key-1: 'file:{tmp_path}/key.pem'}}").run(DAY)


# What is not recognised, and settings that do not fit.


@pytest.mark.parametrize(
    ("layout", "path", "sentence"),
    [
        ("local", "b525cddd/kafka/orders/0_19/4886-1-v1.log.2", "Redpanda's tiered storage"),
        ("aiven", "warehouse/orders/data/00000-0-4f.parquet", "Iceberg mode"),
        ("aiven", f"orders-0-{uuid_of('t')}/{0:020d}-{uuid_of('s')}.log", "the layout local, not aiven"),
        ("local", f"orders-{uuid_of('t')}/0/{0:020d}-{uuid_of('s')}.log", "the layout aiven, not local"),
        ("local", "something/else", "none has a name of the layout local"),
    ],
)
def test_other_objects_are_named(layout: str, path: str, sentence: str) -> None:
    source = Source.model_validate({"name": "s", "kind": "tiered", "layout": layout, "root": "/tier"})
    reader = reader_of(source)
    assert reader.place(ObjectStat(key=path, size=1, version="v")) is None
    assert sentence in reader.why_unrecognised([path])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "'layout' where kind is tiered: local, aiven, pinterest"),
        ({"layout": "redpanda"}, "objects of redpanda are not read"),
        ({"layout": "automq"}, "objects of automq are not read"),
        ({"layout": "local", "dates": "%Y-%m-%d"}, "no 'dates'"),
        ({"layout": "aiven", "immutable": True}, "decoded into the lake"),
        ({"layout": "local", "encryption_keys": {"a": "env:KEY"}}, "only where layout is aiven"),
        (
            {"layout": "aiven", "encryption_keys": {"a": "-----BEGIN PRIVATE KEY-----"}},
            "never the key itself",
        ),
        ({"layout": "local", "key_prefix": "a"}, "only where layout is aiven"),
        ({"layout": "aiven", "key_prefix": "a/b"}, "belongs to 'root'"),
        ({"layout": "local", "seed": True}, "'seed' only where kind is broker-log"),
        ({"kind": "broker-log", "layout": "local"}, "'layout' only where kind is tiered"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Source.model_validate({"name": "s", "kind": "tiered", "root": "/tier", **settings})


def test_a_key_in_the_configuration_is_refused_without_being_repeated(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="keys are not allowed in this file") as refused:
        aiven_lake(tmp_path, "{key-1: '-----BEGIN PRIVATE KEY----- hunter2'}")
    assert "hunter2" not in str(refused.value)


def test_a_relative_key_file_is_beside_the_configuration(tmp_path: Path) -> None:
    encrypted(tmp_path)
    lake = aiven_lake(tmp_path, "{key-1: 'file:key.pem'}")
    assert manifest(lake, lake.run(DAY)).problems == ()


# Retention of the whole log, and buckets.


def retained(place: Path, *, has_checkpoint: bool) -> tuple[Path, int]:
    """Tier and tail of a partition whose first segment retention has deleted; returns where it begins now."""
    data = recording("oracle_A")
    cut(data, place, everywhere(data, WHOLE))
    start = uploads_of(first_partition())[0].end
    for path in (place / "tier").glob(f"orc-1-*/{0:020d}-*"):
        path.unlink()
    if has_checkpoint:
        lines = f"0\n1\norc 1 {start}\n"
        (place / "tail" / "log-start-offset-checkpoint").write_text(lines)
        (place / "tail" / "orc-1" / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
    return place, start


def test_what_retention_deleted_is_no_gap_if_the_tail_says_so(
    tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    place, start = retained(tmp_path, has_checkpoint=True)
    lake = joined(place)
    outcome = lake.run(DAY)
    expected = [
        row
        for row in whole("oracle_A")
        if (row["topic"], row["partition"]) != ("orc", 1) or row["offset"] >= start
    ]
    expect_same(expected, lake)
    assert messages(lake, outcome) == []


def test_a_tier_alone_begins_where_its_first_segment_does(
    tmp_path: Path, whole: Callable[[str], Rows]
) -> None:
    place, start = retained(tmp_path, has_checkpoint=False)
    for path in (place / "tier").iterdir():
        if not path.name.startswith("orc-1-"):
            shutil.rmtree(path)
    lake = lake_at(place, "name: past, kind: tiered, layout: local, root: tier")
    outcome = lake.run(DAY)
    end = uploads_of(first_partition())[-1].end
    expected = [
        row
        for row in whole("oracle_A")
        if (row["topic"], row["partition"]) == ("orc", 1) and start <= row["offset"] < end
    ]
    expect_same(expected, lake)
    assert any(f"no snapshot at offset {start}" in each for each in messages(lake, outcome, Step.REBUILD))


def test_missing_uploads_at_the_beginning_are_a_gap_if_the_tail_knows_of_them(tmp_path: Path) -> None:
    place, start = retained(tmp_path, has_checkpoint=False)
    lake = joined(place)
    (message,) = messages(lake, lake.run(DAY))
    assert f"orc-1: offsets 0 to {start - 1} are in no copy" in message


def test_producers_that_wrote_only_what_retention_deleted_are_known_by_a_later_snapshot(
    tmp_path: Path,
) -> None:
    place, start = retained(tmp_path, has_checkpoint=True)
    for path in (place / "tail" / "orc-1").glob("*.snapshot"):
        path.unlink()
    newest = uploads_of(first_partition())[-1]
    idle = {
        entry.producer_id: entry.last_sequence
        for entry in read_snapshot(newest.snapshot)
        if 0 <= entry.last_data_offset < start
    }
    lake = joined(place)
    lake.run(date(2026, 11, 16))
    found = {
        row["producer_id"]: row["last_sequence"]
        for row in lake.rows("producers")
        if (row["topic"], row["partition"]) == ("orc", 1) and row["producer_id"] in idle
    }
    assert found == idle
    assert idle


def failing_after(good: int, part: str, spoiled: Spoiled) -> Fault:
    """Spoils what is read of such objects, after so many good answers."""
    answered = count()

    def fault(method: str, path: str) -> Spoiled | None:
        return spoiled if method == "GET" and part in path and next(answered) >= good else None

    return fault


def test_a_tier_in_a_bucket_is_read_and_inspected_once_the_bucket_answers(
    tmp_path: Path, s3_server: S3Server, whole: Callable[[str], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.new_bucket()
    data = recording("oracle_A")
    cut(data, tmp_path, everywhere(data, WHOLE), AIVEN["zstd"].write)
    store = open_store(f"s3://{bucket}/prefix", s3_server.settings)
    for path in (tmp_path / "tier").rglob("*.*"):
        store.put(str(path.relative_to(tmp_path / "tier")), path.read_bytes())
    lake = lake_at(
        tmp_path,
        f"name: past, kind: tiered, layout: aiven, root: 's3://{bucket}/prefix'",
        "name: tail, kind: broker-log, root: tail",
    )
    with faulty_s3(s3_server.endpoint_url) as proxy:
        through = {"endpoint_url": proxy.endpoint_url, "max_attempts": 1}
        s3 = s3_server.settings.model_copy(update=through)
        lake = Lake(place=lake.place, settings=lake.settings.model_copy(update={"s3": s3}))
        for part, spoiled in ((".rsm-manifest", Spoiled(status=503)), (".log", Spoiled(body_bytes=2))):
            proxy.spoil(failing_after(3, part, spoiled))
            with pytest.raises(StorageError):
                lake.run(DAY)
        proxy.spoil(lambda method, path: None)
        assert manifest(lake, lake.run(DAY)).problems == ()
    expect_same(whole("oracle_A"), lake)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint_url)
    shown = CliRunner().invoke(app, ["inspect", "--json", f"s3://{bucket}/prefix"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout.splitlines()[0])["path"] == f"s3://{bucket}/prefix"
