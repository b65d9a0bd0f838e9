"""Topic ids in manifests: one per directory, from `partition.metadata`; which log a directory holds."""

import json
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.checkpoints import PartitionMetadata, write_partition_metadata
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import TopicRecreated, sealed, unsealed
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import Manifest
from spark_jobs.lake.run_folder import MANIFEST
from tests.pipeline.runs import BROKER_LOG, CAPTURE, Place, day, place_at

FIRST, SECOND, THIRD = "25SNuNZhRx2La2_fVdm_UQ", "Q6qNlyVoRc-LPQhzkpBTGA", "Ai1bOKTzQ-e1EJ3YgGXvUA"
NEW_TABLE = BROKER_LOG + "topics: {orders: {on_recreate: new_table}}\n"
SEGMENT = "00000000000000000000.log"


def metadata(topic_id: str) -> bytes:
    return write_partition_metadata(PartitionMetadata(topic_id=topic_id))


@pytest.fixture
def logs(tmp_path: Path) -> Place:
    return place_at(tmp_path, BROKER_LOG)


def ids(place: Place, number: int) -> dict[str, str]:
    return {entry.path: entry.topic_id for entry in place.finish(number).entries}


def test_every_object_of_a_directory_has_its_topic_id(logs: Place) -> None:
    logs.arrive(f"orders-0/{SEGMENT}", b"x")
    logs.arrive("orders-0/partition.metadata", metadata(FIRST))
    logs.arrive(f"clicks-0/{SEGMENT}", b"y")
    logs.arrive("meta.properties", b"")
    assert ids(logs, 1) == {
        f"orders-0/{SEGMENT}": FIRST,
        "orders-0/partition.metadata": FIRST,
        f"clicks-0/{SEGMENT}": "",
        "meta.properties": "",
    }


def test_an_unreadable_file_leaves_the_id_unknown(logs: Place) -> None:
    logs.arrive(f"orders-0/{SEGMENT}", b"x")
    logs.arrive("orders-0/partition.metadata", b"version: 0\ntopic_id: short")
    assert set(ids(logs, 1).values()) == {""}


def test_in_a_dated_layout_a_late_segment_has_the_id_that_came_before_it(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG + "    dates: dt=%Y-%m-%d\n")
    place.arrive(f"dt={day(1)}/orders-0/partition.metadata", metadata(FIRST))
    assert set(ids(place, 1).values()) == {FIRST}
    place.arrive(f"dt={day(1)}/orders-0/{SEGMENT}", b"late")
    assert ids(place, 2) == {f"dt={day(1)}/orders-0/{SEGMENT}": FIRST}


def test_a_copied_over_directory_without_its_file_has_no_id(logs: Place) -> None:
    logs.arrive(f"orders-0/{SEGMENT}", b"x")
    file = logs.arrive("orders-0/partition.metadata", metadata(FIRST))
    assert set(ids(logs, 1).values()) == {FIRST}
    file.unlink()
    assert ids(logs, 2) == {f"orders-0/{SEGMENT}": ""}


def test_a_referenced_file_is_read_at_its_source(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG + "    immutable: true\n")
    place.arrive("orders-0/partition.metadata", metadata(SECOND))
    assert ids(place, 1) == {"orders-0/partition.metadata": SECOND}


def log(place: Place, directory: str, topic_id: str, data: bytes) -> None:
    """A directory with one segment; an empty id means no file."""
    place.arrive(f"{directory}/{SEGMENT}", data)
    file = place.arrive(f"{directory}/partition.metadata", metadata(topic_id or FIRST))
    if not topic_id:
        file.unlink()


def names(manifest: Manifest) -> dict[str, str]:
    return {entry.directory: entry.topic for entry in manifest.entries}


@pytest.fixture
def split(tmp_path: Path) -> Place:
    """A lake that gives every new log a table of its own."""
    return place_at(tmp_path, NEW_TABLE)


def test_another_id_is_another_log_and_keeps_its_name(split: Place) -> None:
    log(split, "a/orders-0", FIRST, b"old")
    assert names(split.finish(1)) == {"a/orders-0": "orders"}
    log(split, "a/orders-0", SECOND, b"new")
    log(split, "b/orders-0", FIRST, b"old")
    assert names(split.finish(2)) == {"a/orders-0": "orders~2", "b/orders-0": "orders"}
    log(split, "a/orders-0", SECOND, b"new, grown")
    log(split, "b/orders-0", THIRD, b"newest")
    assert names(split.finish(3)) == {"a/orders-0": "orders~2", "b/orders-0": "orders~3"}


def test_orders_of_objects_stay_unique_and_ascend_within_a_log(split: Place) -> None:
    for number in range(2):
        log(split, f"a/orders-{number}", FIRST, b"old")
    split.finish(1)
    for number in range(2):
        log(split, f"a/orders-{number}", SECOND, b"new %d" % number)
        log(split, f"b/orders-{number}", FIRST, b"old")
    entries = split.stage(2).entries
    assert [entry.order for entry in entries] == list(range(8))
    places = [(entry.topic, entry.partition, entry.name) for entry in entries]
    assert places == sorted(places)


def test_a_stop_is_the_default_and_a_later_choice_stages_anew(tmp_path: Path) -> None:
    logs = place_at(tmp_path, BROKER_LOG)
    log(logs, "orders-0", FIRST, b"old")
    logs.finish(1)
    log(logs, "orders-0", SECOND, b"new")
    with pytest.raises(TopicRecreated, match="on_recreate: new_table"):
        logs.stage(2)
    assert names(place_at(tmp_path, NEW_TABLE).stage(2)) == {"orders-0": "orders~2"}
    with pytest.raises(TopicRecreated):
        logs.stage(2)


def test_what_was_accepted_once_needs_no_choice_in_a_backfill(tmp_path: Path) -> None:
    log(place_at(tmp_path, NEW_TABLE), "orders-0", FIRST, b"old")
    place_at(tmp_path, NEW_TABLE).finish(1)
    log(place_at(tmp_path, NEW_TABLE), "orders-0", SECOND, b"new")
    accepted = place_at(tmp_path, NEW_TABLE).finish(2)
    assert place_at(tmp_path, BROKER_LOG).stage(2, backfill=True) == accepted


def test_the_choice_is_no_part_of_the_configurations_digest(tmp_path: Path) -> None:
    one, other = (
        place_at(tmp_path, BROKER_LOG + f"topics: {{orders: {{on_recreate: {choice}}}}}\n").settings
        for choice in ("stop", "new_table")
    )
    assert one.digest == other.digest


def test_a_directory_without_an_id_is_of_the_log_beside_it(split: Place) -> None:
    log(split, "a/orders-0", FIRST, b"old")
    split.finish(1)
    log(split, "a/orders-0", SECOND, b"new")
    log(split, "a/orders-1", "", b"new, too")
    assert names(split.finish(2)) == {"a/orders-0": "orders~2", "a/orders-1": "orders~2"}


def test_a_directory_without_an_id_is_refused_where_nothing_says_which_log_it_is(split: Place) -> None:
    log(split, "a/orders-0", FIRST, b"old")
    split.finish(1)
    log(split, "a/orders-0", SECOND, b"new")
    log(split, "b/orders-0", "", b"which?")
    with pytest.raises(TopicRecreated, match="gateway/b/orders-0: no readable partition"):
        split.stage(2)


@pytest.mark.parametrize("first", [FIRST, ""])
def test_two_ids_that_no_run_knows_are_refused(split: Place, first: str) -> None:
    if first:
        log(split, "a/orders-0", first, b"old")
        split.finish(1)
    log(split, "a/orders-0", SECOND, b"one")
    log(split, "b/orders-0", THIRD, b"other")
    with pytest.raises(TopicRecreated, match="2 topic ids that no earlier run knows") as raised:
        split.stage(2)
    assert f"{SECOND} in gateway/a/orders-0, {THIRD} in gateway/b/orders-0" in str(raised.value)


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_two_clusters_are_refused_in_a_first_run_too(tmp_path: Path, topic: str) -> None:
    place = place_at(tmp_path, BROKER_LOG + "topics: {'*': {on_recreate: new_table}}\n")
    log(place, f"a/{topic}-0", FIRST, b"one")
    log(place, f"b/{topic}-0", SECOND, b"other")
    with pytest.raises(TopicRecreated, match="means another cluster"):
        place.stage(1)


def test_another_id_of_a_captured_topic_is_refused(tmp_path: Path) -> None:
    config = (
        CAPTURE
        + "  - {name: kafka, kind: broker-log, root: logs, seed: true}\n"
        + "topics: {orders: {on_recreate: new_table}}\n"
    )
    place = place_at(tmp_path, config)
    place.arrive(f"dt={day(1)}/orders-0/1", b"captured")
    directory = tmp_path / "logs/orders-0"
    directory.mkdir(parents=True)
    (directory / "partition.metadata").write_bytes(metadata(FIRST))
    assert set(names(place.finish(1)).values()) == {"orders"}
    (directory / "partition.metadata").write_bytes(metadata(SECOND))
    with pytest.raises(TopicRecreated, match="captures have no topic ids"):
        place.stage(2)


def without_ids(place: Place, number: int) -> None:
    """The manifest of that day as written by a version that did not read topic ids."""
    entry = read_chain(place.lake).run_of(day(number))
    assert entry is not None
    key = step_key(entry.run_id, Step.STAGE, MANIFEST)
    lines = [json.loads(line) for line in unsealed(place.lake.read(key), source=key).splitlines()]
    for line in lines:
        line.pop("topic_id", None)
    place.lake.put(key, sealed(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


def test_ids_that_earlier_versions_did_not_look_at_are_read_from_their_copies(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    log(place, "orders-0", FIRST, b"old")
    place.finish(1)
    without_ids(place, 1)
    log(place, "orders-0", SECOND, b"new")
    with pytest.raises(TopicRecreated, match=f"In earlier runs its topic id was {FIRST}, now it is {SECOND}"):
        place.stage(2)
    log(place, "orders-0", FIRST, b"old, grown")
    assert names(place.finish(2)) == {"orders-0": "orders"}


def test_directories_that_are_being_deleted_are_left_alone(split: Place) -> None:
    log(split, "orders-0", FIRST, b"old")
    split.finish(1)
    log(split, "orders-0", SECOND, b"new")
    for suffix in ("delete", "stray", "future"):
        log(split, f"orders-0.0123456789abcdef0123456789abcdef-{suffix}", FIRST, b"old")
    assert names(split.stage(2)) == {"orders-0": "orders~2"}


def test_nothing_else_of_a_manifest_is_lost_with_a_new_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    second = "  - {name: nothing, kind: broker-log, root: empty}\n"
    place = place_at(tmp_path, NEW_TABLE.replace("topics:", f"{second}topics:"))
    log(place, "orders-0", FIRST, b"old")
    before = place.finish(1)
    log(place, "orders-0", SECOND, b"new")
    found = place.stage(2)
    assert names(found) == {"orders-0": "orders~2"}
    assert (
        [each.bare for each in found.bare_sources]
        == [each.bare for each in before.bare_sources]
        == ["nothing"]
    )
