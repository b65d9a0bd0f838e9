from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.stage.worker import BUNDLE_BYTES, BUNDLE_OBJECTS, Notes
from tests.lake.runs import day


def test_a_bundle_is_written_after_so_many_objects(store: ObjectStore) -> None:
    notes = Notes(store, day(1))
    for number in range(BUNDLE_OBJECTS + 1):
        notes.add(str(number), f"sha {number}", size=1)
    assert Notes(store, day(1)).read() == {str(number): f"sha {number}" for number in range(BUNDLE_OBJECTS)}


def test_a_bundle_is_written_after_so_many_bytes(store: ObjectStore) -> None:
    notes = Notes(store, day(1))
    notes.add("small", "sha", size=BUNDLE_BYTES - 1)
    assert Notes(store, day(1)).read() == {}
    notes.add("last straw", "sha", size=1)
    assert set(Notes(store, day(1)).read()) == {"small", "last straw"}


def test_what_is_left_is_written_at_the_end_and_runs_are_kept_apart(store: ObjectStore) -> None:
    notes = Notes(store, day(1))
    notes.add("a", "sha", size=1)
    notes.write()
    notes.write()
    assert Notes(store, day(1)).read() == {"a": "sha"}
    assert Notes(store, day(2)).read() == {}
    assert len(list(store.list("staging"))) == 1


def test_cleared_notes_are_gone(store: ObjectStore) -> None:
    notes = Notes(store, day(1))
    notes.add("a", "sha", size=1)
    notes.write()
    notes.clear()
    assert list(store.list("staging")) == []
