"""Kafka's own classes beside ours: `make soak TRIAL=judge` in short, and faults that it must notice."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.verdict import Rules
from spark_jobs.sample.broker import log_validator, partition_log
from spark_jobs.sample.broker.log_segment import LogSegment
from spark_jobs.sample.broker.producer_state_manager import ProducerStateManager
from tests.broker.judge import JudgeUnavailableError
from tests.broker.judge_trial import KEPT, Play, fails, judge_trial, load_play, perform, random_play, shortest
from tests.broker.kafka_classes import Judge

pytestmark = pytest.mark.broker
PLAYS = 24
MOST_PLAYS = 60
"""In so many plays a fault must be noticed."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    try:
        with Judge() as started:
            yield started
    except JudgeUnavailableError as missing:
        pytest.skip(str(missing))


def test_random_plays_end_alike(judge: Judge, seed: int, tmp_path: Path) -> None:
    del judge  # it is there, or the test is skipped
    compared = judge_trial(tmp_path, seed, PLAYS)
    assert compared["batches"] > 0
    assert compared["coordinator values"] > 0


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_plays_that_once_failed_end_alike(judge: Judge, path: Path, tmp_path: Path) -> None:
    assert perform(load_play(path), judge, tmp_path) > 0


def nothing(*_: Any, **__: Any) -> None:
    """A rule that never refuses, a step that is left out."""


def expires_late(manager: ProducerStateManager, entry: Any, now: int) -> bool:
    idle = now - entry.last_timestamp
    return entry.current_txn_first_offset is None and idle > manager.producer_id_expiration_ms


FAULTS: dict[str, tuple[str, Any, str, Any]] = {
    "a resend is not known": ("fold", admission, "find_duplicate", nothing),
    "an old epoch is not fenced": ("fold", admission, "check_data_epoch", nothing),
    "any marker is taken": ("fold", admission, "check_marker_epoch", nothing),
    "a gap is taken": ("fold", admission, "check_sequence", nothing),
    "four batches are remembered": ("fold", admission, "NUM_BATCHES_TO_RETAIN", 4),
    "an unverified transaction is taken": ("log", admission, "check_verification", nothing),
    "a transaction is never complete": ("log", admission, "_complete", nothing),
    "a plain batch inside a transaction is taken": (
        "log",
        partition_log,
        "Rules",
        partial(Rules, enforce_open_transaction=False),
    ),
    "any header is taken": ("log", log_validator, "check_client_header", nothing),
    "any record is taken": ("log", log_validator, "_check_record", nothing),
    "any order of offsets is taken": ("log", log_validator, "_check_order", nothing),
    "producers expire a millisecond late": ("log", ProducerStateManager, "_is_expired", expires_late),
    "no snapshots are taken": ("log", ProducerStateManager, "take_snapshot", nothing),
    "guards are not cleared": ("log", ProducerStateManager, "clear_verification_state", nothing),
    "the largest timestamp is not indexed": ("log", LogSegment, "index_max_timestamp", nothing),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_rule_is_noticed(
    fault: str, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, owner, name, faulty = FAULTS[fault]
    monkeypatch.setattr(owner, name, faulty)
    found = (_failure(random_play(kind, seed), judge, tmp_path) for seed in range(MOST_PLAYS))
    assert any(found), f"{MOST_PLAYS} plays do not show that {fault}"


def _failure(play: Play, judge: Judge, folder: Path) -> str | None:
    """Why a play fails; a fault may also end in an error of ours."""
    try:
        return fails(play, judge, folder)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        return repr(error)


def test_a_failing_play_is_made_short(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "find_duplicate", nothing)
    plays = (random_play("fold", seed) for seed in range(MOST_PLAYS))
    play = next(each for each in plays if fails(each, judge, tmp_path))
    short = shortest(play, judge, tmp_path)
    assert len(short.steps) == 2
    assert fails(short, judge, tmp_path)


def test_without_javac_the_reason_is_clear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.broker import kafka_classes

    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / ".complete").write_text("pom")
    monkeypatch.setattr(kafka_classes, "kafka_jars", lambda: jars)
    monkeypatch.setattr(shutil, "which", nothing)
    with pytest.raises(JudgeUnavailableError, match="javac"):
        kafka_classes.judge_classes()
