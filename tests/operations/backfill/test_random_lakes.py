"""After a backfill of late or replaced objects, tables are the same as if the objects had arrived in time."""

import random
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.log_loader import load
from tests.operations.backfill.lakes import backfill, chain_of, current_run, log_directory, run_day
from tests.pipeline.batches import NOON, batch
from tests.pipeline.runs import Place, day, place_at

RUN_DATES = (1, 2, 3)
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("clicks", 0))
REPORTED = ("verdict", "offset", "producer_id", "base_sequence", "position", "expected_sequence")


def _batches(chance: random.Random) -> bytes:
    """Some batches of three producers: the next ones, retries, gaps."""
    sequences = (chance.randrange(6) for _ in range(chance.randrange(1, 6)))
    return b"".join(batch(sequence, pid=chance.randrange(1, 4)) for sequence in sequences)


def _objects(chance: random.Random) -> dict[str, bytes]:
    """Up to three objects a run of each partition."""
    return {
        f"dt=2024-05-0{number}/{partition}/{name}": _batches(chance)
        for number in RUN_DATES
        for partition in PARTITIONS
        for name in chance.sample("abc", chance.randrange(4))
    }


def _run_wrongly(place: Place, objects: dict[str, bytes], chance: random.Random) -> None:
    """Some objects come a run or more late, some with bytes that are replaced in the end."""
    Path(place.settings.sources[0].root).mkdir(parents=True)
    arrival = {path: int(path[12]) + chance.choice((0, 0, 0, 1, 3)) for path in objects}
    for number in RUN_DATES:
        for path in (path for path, when in arrival.items() if when == number):
            place.arrive(path, objects[path] if chance.random() < 0.8 else _batches(chance))
        run_day(place, number)
    for path, data in objects.items():
        place.arrive(path, data)


def _reported(place: Place, number: int) -> dict[TopicPartition, Any]:
    """Verdicts of a run and what it left, without leader epochs."""
    run = current_run(place, number)
    return {
        partition: (
            [tuple(row[name] for name in REPORTED) for row in run.batches(partition)],
            run.state(partition).end_offset,
            run.state(partition).producers.tobytes(),
        )
        for partition in run.partitions()
    }


def _check_logs(place: Place, target: Path) -> None:
    """A broker loads every log, and its leader epochs never fall."""
    for directory in log_directory(place, target).values():
        log = load({path.name: path.read_bytes() for path in directory.iterdir()}, clean=False, now=NOON)
        stamps = [each.header.partition_leader_epoch for part in log.segments for each in part.batches]
        known = [entry.epoch for entry in log.leader_epochs.entries]
        assert (stamps, sorted(set(known))) == (sorted(stamps), known)
        assert set(stamps) <= set(known)


@pytest.mark.parametrize("seed", range(4))
def test_a_backfill_makes_up_for_everything(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    objects = _objects(chance)
    wrong, right = place_at(tmp_path / "wrong"), place_at(tmp_path / "right")
    _run_wrongly(wrong, objects, chance)
    for path, data in objects.items():
        right.arrive(path, data)
    for number in RUN_DATES:
        run_day(right, number)

    backfill(wrong, 1, 3)

    assert [_reported(wrong, number) for number in RUN_DATES] == [
        _reported(right, number) for number in RUN_DATES
    ]
    assert chain_of(wrong).stale() == ()
    assert backfill(wrong, 1, 3) == []
    assert max(chain_of(wrong).current) == day(3)
    _check_logs(wrong, tmp_path / "logs")
