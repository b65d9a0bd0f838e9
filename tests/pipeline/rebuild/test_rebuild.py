"""`rebuild`: which state a partition starts from, and its origin in the table."""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.snapshot import write_snapshot
from spark_jobs.kafka.producers.producer_state import BatchMetadata, ProducerStateEntry
from spark_jobs.tables.rebuild import STATE_ORIGINS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from tests.pipeline.admitted import ORDERS, AdmittedRun, admit
from tests.pipeline.batches import NOON, batch, marker
from tests.pipeline.runs import CAPTURE, Place, place_at

LOGS = "lake: lake\nsources:\n  - {name: kafka, kind: broker-log, root: logs}\n"
SEEDED = CAPTURE + "    markers: true\n  - {name: kafka, kind: broker-log, root: logs, seed: true}\n"


def log_file(offset: int, kind: str = "log") -> str:
    return f"{offset:020d}.{kind}"


def snapshot(*sequences: int, at: int, txn: int | None = None) -> bytes:
    """Producers 1, 2, ... that each wrote a batch, the last offset before `at`."""
    return write_snapshot(
        ProducerStateEntry(
            producer_id=producer_id,
            producer_epoch=0,
            last_timestamp=NOON,
            current_txn_first_offset=txn,
            batches=(
                BatchMetadata(last_sequence=sequence, last_offset=at - 1, offset_delta=0, timestamp=NOON),
            ),
        )
        for producer_id, sequence in enumerate(sequences, start=1)
    )


def put(place: Place, name: str, data: bytes, replica: str = "one") -> None:
    path = place.directory / "logs" / replica / "orders-0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def log(*numbers: int, start: int = 0) -> bytes:
    """Batches of producer 1 with these sequences, from offset `start` on."""
    return b"".join(batch(seq, at=start + place) for place, seq in enumerate(numbers))


def origin(run: AdmittedRun) -> dict[str, Any]:
    rows = run.table(Step.REBUILD, STATE_ORIGINS.file).to_pylist()
    [found] = [row for row in rows if (row["topic"], row["partition"]) == ORDERS]
    return dict(found)


def messages(run: AdmittedRun) -> list[str]:
    key = run.key(Step.REBUILD, "messages.json")
    found: list[str] = json.loads(run.lake.read(key)) if run.lake.stat(key) else []
    return found


def test_a_first_run_of_a_capture_starts_empty_and_says_so(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE)
    place.arrive("dt=2024-05-01/orders-0/a", batch(0))

    run = admit(place, 1)

    assert origin(run)["origin"] == "empty"
    assert messages(run) == [
        "orders-0: starts without any state; no producer is known, and the first sequence of each is taken"
    ]


def test_the_next_run_starts_where_the_last_one_ended(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE)
    for number in (1, 2):
        place.arrive(f"dt=2024-05-0{number}/orders-0/a", batch(number))
    first, second = admit(place, 1), admit(place, 2)

    assert (origin(second)["origin"], origin(second)["run_id"]) == ("chain", first.run_id)
    assert origin(second)["state"] == first.states()[ORDERS]
    assert messages(second) == []


def test_a_whole_log_needs_no_snapshot(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(0), log(0, 1))

    run = admit(place, 1)

    assert origin(run)["origin"] == "empty"
    assert messages(run) == []


def test_a_log_that_begins_later_starts_from_the_snapshot_at_its_beginning(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(50), log(7, start=50))
    put(place, log_file(50, "snapshot"), snapshot(6, 3, at=50))
    put(place, log_file(51, "snapshot"), snapshot(7, 3, at=51))

    run = admit(place, 1)

    found = origin(run)
    assert (found["origin"], found["snapshot_offset"], found["producers"]) == ("snapshot", 50, 2)
    assert found["snapshot"] == "kafka/one/orders-0/00000000000000000050.snapshot"
    assert run.state().producers["producer_id"].tolist() == [1, 2]
    assert run.verdicts() == ["accepted"]
    assert run.gaps() == []


def test_a_corrupt_snapshot_at_the_beginning_is_passed_over_and_named(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(50), log(7, start=50))
    put(place, log_file(50, "snapshot"), snapshot(6, at=50)[:-1])

    run = admit(place, 1)

    assert origin(run)["origin"] == "empty"
    assert "corrupt producer snapshot" in origin(run)["skipped"][0]
    assert len(messages(run)) == 2


def _without_middle(directory: Path) -> Place:
    """A run took offset 0; now the log begins at 50."""
    place = place_at(directory, LOGS)
    put(place, log_file(0), batch(0, txn=True, at=0))
    admit(place, 1)
    (place.directory / "logs/one/orders-0" / log_file(0)).unlink()
    put(place, log_file(50), log(7, start=50))
    put(place, log_file(50, "snapshot"), snapshot(6, at=50))
    return place


def test_a_log_whose_middle_is_missing_keeps_the_state_of_its_chain(tmp_path: Path) -> None:
    run = admit(_without_middle(tmp_path), 2)

    assert origin(run)["origin"] == "chain"
    assert run.verdicts() == ["behind_gap"]
    assert (run.state().end_offset, len(run.state().open_transactions)) == (1, 1)


def test_a_log_whose_middle_is_deleted_continues_from_the_snapshot_behind_it(tmp_path: Path) -> None:
    place = _without_middle(tmp_path)
    put(place, "leader-epoch-checkpoint", b"0\n1\n0 50\n")

    run = admit(place, 2)

    assert origin(run)["origin"] == "snapshot"
    assert messages(run) == ["orders-0: offsets 1 to 49 are in no staged log"]
    assert [(*gap, run.gap_rows()[0]["status"]) for gap in run.gaps()] == [(1, 49, "deleted")]
    assert len(run.state().open_transactions) == 0


def _positions(run: AdmittedRun) -> tuple[int, int]:
    """(last stable offset, end of what is published)."""
    [row] = run.table(Step.RESOLVE, RESOLVED_PARTITIONS.file).to_pylist()
    return row["last_stable_offset"], row["end_offset"]


@pytest.mark.parametrize("at", [50, 52])
def test_an_open_transaction_whose_batches_were_all_deleted_holds_readers_at_the_log_start(
    tmp_path: Path, at: int
) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(50), b"".join(batch(seq, pid=2, at=50 + seq) for seq in range(4)))
    put(place, log_file(at, "snapshot"), snapshot(6, at=40, txn=20))

    first = admit(place, 1, until=Step.RESOLVE)

    assert _positions(first) == (50, 50)
    assert first.state().producers["producer_id"].tolist() == [1, 2]

    put(place, log_file(54), marker(ControlType.ABORT, at=54, epoch=1))
    assert _positions(admit(place, 2, until=Step.RESOLVE)) == (55, 55)


def test_a_transaction_that_only_the_newest_snapshot_knows_counts_for_a_partition_with_a_past(
    tmp_path: Path,
) -> None:
    place = _without_middle(tmp_path)
    put(place, "leader-epoch-checkpoint", b"0\n1\n0 50\n")
    (place.directory / "logs/one/orders-0" / log_file(50, "snapshot")).unlink()
    put(place, log_file(51, "snapshot"), snapshot(0, 6, at=40, txn=20))

    run = admit(place, 2)

    opened = run.state().open_transactions
    assert [(int(row["producer_id"]), int(row["first_offset"])) for row in opened] == [(1, 20), (2, 20)]


def test_the_checkpointed_log_start_is_what_the_log_still_promises(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(0), log(0, 1, 2))
    (place.directory / "logs/one/log-start-offset-checkpoint").write_bytes(b"0\n1\norders 0 2\n")

    run = admit(place, 1)

    assert run.verdicts() == ["accepted"] * 3
    assert (run.state().log_start_offset, run.state().published_offset) == (2, 2)


# -- a broker's log as the past of a captured partition ------------------------------------------------------


def seeded(tmp_path: Path) -> Place:
    """A broker's log with three segments and a snapshot at each base and at its end."""
    place = place_at(tmp_path, SEEDED)
    put(place, log_file(0), log(0, 1))
    put(place, log_file(2), log(2, 3, start=2))
    put(place, log_file(4), log(4, start=4))
    for offset in (2, 4, 5):
        put(place, log_file(offset, "snapshot"), snapshot(offset - 1, at=offset))
    place.arrive("dt=2024-05-01/orders-0/a", batch(4) + batch(5))
    return place


def test_a_capture_continues_where_its_seed_ends(tmp_path: Path) -> None:
    run = admit(seeded(tmp_path), 1)

    found = origin(run)
    assert (found["origin"], found["snapshot_offset"], found["tail_first_offset"]) == ("seed", 5, None)
    captured = [row for row in run.batches() if row["source"] == "gateway"]
    assert [(row["verdict"], row["offset"]) for row in captured] == [("duplicate", 4), ("accepted", 5)]
    assert run.verdicts().count("overlap") == 5
    assert run.state().log_start_offset == 5
    assert list(run.log()) == [
        log_file(5),
        log_file(5, "snapshot"),
        log_file(6, "snapshot"),
        "leader-epoch-checkpoint",
    ]


@pytest.mark.parametrize(
    ("corrupt", "snapshot_offset", "tail"),
    [((5,), 4, (4, 4)), ((4, 5), 2, (2, 4)), ((2, 4, 5), None, (0, 4))],
)
def test_corrupt_snapshots_mean_an_older_one_and_more_tail(
    tmp_path: Path, corrupt: tuple[int, ...], snapshot_offset: int | None, tail: tuple[int, int]
) -> None:
    place = seeded(tmp_path)
    for offset in corrupt:
        put(place, log_file(offset, "snapshot"), b"\0\1 no snapshot")

    run = admit(place, 1)

    found = origin(run)
    assert found["snapshot_offset"] == snapshot_offset
    assert (found["tail_first_offset"], found["tail_last_offset"]) == tail
    assert len(found["skipped"]) == len(corrupt)
    captured = [row for row in run.batches() if row["source"] == "gateway"]
    assert [(row["verdict"], row["offset"]) for row in captured] == [("duplicate", 4), ("accepted", 5)]


def test_a_seed_ends_where_an_unclean_recovery_would_cut_it(tmp_path: Path) -> None:
    place = place_at(tmp_path, SEEDED)
    put(place, log_file(0), log(0, 1) + batch(2, at=2)[:-5])
    put(place, log_file(3, "snapshot"), snapshot(2, at=3))
    place.arrive("dt=2024-05-01/orders-0/a", batch(2))

    run = admit(place, 1)

    assert origin(run)["snapshot"] is None
    assert run.state().end_offset == 3


def test_the_furthest_of_several_seeds_counts(tmp_path: Path) -> None:
    place = place_at(tmp_path, SEEDED)
    put(place, log_file(0), log(0), replica="behind")
    put(place, log_file(0), log(0, 1, 2), replica="ahead")
    place.arrive("dt=2024-05-01/orders-0/a", batch(3))

    assert admit(place, 1).state().end_offset == 4


def test_a_transaction_open_in_the_seed_is_closed_by_a_captured_marker(tmp_path: Path) -> None:
    place = place_at(tmp_path, SEEDED)
    put(place, log_file(0), batch(0, txn=True, at=0))
    place.arrive("dt=2024-05-01/orders-0/a", marker(ControlType.ABORT, epoch=1))

    run = admit(place, 1)

    [row] = run.transactions()
    assert (row["first_offset"], row["marker_type"], row["began_before"]) == (0, 0, True)


def test_later_runs_follow_the_chain_and_not_the_seed(tmp_path: Path) -> None:
    place = seeded(tmp_path)
    admit(place, 1)
    put(place, log_file(4), log(4, 5, 6, 7, start=4))
    place.arrive("dt=2024-05-02/orders-0/b", batch(6))

    second = admit(place, 2)

    assert origin(second)["origin"] == "chain"
    assert second.state().end_offset == 7


def test_a_state_keeps_its_topic_id_and_adopts_one_that_was_unknown(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    put(place, log_file(0), log(0, 1))
    assert admit(place, 1).state().topic_id == ""
    topic_id = "25SNuNZhRx2La2_fVdm_UQ"
    put(place, "partition.metadata", f"version: 0\ntopic_id: {topic_id}".encode())
    put(place, log_file(0), log(0, 1, 2))
    second = admit(place, 2)
    assert (second.state().topic_id, second.verdicts()) == (topic_id, ["accepted"])
    (tmp_path / "logs/one/orders-0/partition.metadata").unlink()
    put(place, log_file(0), log(0, 1, 2, 3))
    third = admit(place, 3)
    assert (third.state().topic_id, third.state().end_offset) == (topic_id, 4)
