"""Flipped bits, and objects that are truncated, swapped, duplicated or huge, are reported, never guessed."""

import json
import os
import random
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.flow import Step
from tests.faults.flipped import Flip, RunResult, flip_of, result_of, segments
from tests.pipeline.materialise.truth import DATA, truth_of
from tests.pipeline.runs import place_at

RECORDING = "oracle_D"
EVERY = bool(os.environ.get("ONCEOVER_EVERY_FAULT"))
SEEDS = range(60) if EVERY else (0, 6, 29, 59)
LEADER_EPOCH = range(12, 16)
"""Bytes of a batch that its checksum does not cover and that change no record."""


def _is_reported(result: RunResult) -> bool:
    admitted = result.counts[Step.ADMIT]
    found = result.counts[Step.INDEX]["problems"]
    return found + admitted.get("divergent", 0) + admitted["gaps"] + admitted.get("overlap", 0) > 0


def _only_true(result: RunResult) -> bool:
    """Whether every published record is one that a consumer got, at its offset."""
    truth = truth_of(RECORDING)
    return all(record in truth for record in result.records)


def _flips(seed: int) -> list[Flip]:
    """A bit in each of two segments: one anywhere, one in a header, where more depends on it."""
    chance = random.Random(seed)
    anywhere, header = chance.sample(segments(RECORDING), 2)
    return [
        flip_of(anywhere, chance.randrange(anywhere.stat().st_size), chance.randrange(8)),
        flip_of(header, chance.randrange(61), chance.randrange(8)),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_bit_is_reported_and_no_wrong_record_is_published(seed: int, tmp_path: Path) -> None:
    flips = _flips(seed)
    result = result_of(tmp_path, RECORDING, flips)
    harmless = all(flip.in_batch in LEADER_EPOCH for flip in flips)
    assert _only_true(result), flips
    assert _is_reported(result) or harmless, flips


def test_a_damaged_abort_marker_does_not_leave_its_records_to_the_producers_next_commit(
    tmp_path: Path,
) -> None:
    path = DATA / RECORDING / "data" / "orc-1" / "00000000000000000113.log"
    flip = flip_of(path, 331, 4)
    assert flip.in_marker
    result = result_of(tmp_path, RECORDING, [flip])
    assert _is_reported(result)
    assert _only_true(result)
    assert result.counts[Step.RESOLVE]["ambiguous"] == 1


def test_every_bit_of_a_batchs_header_is_reported_or_judged_as_a_broker_would(tmp_path: Path) -> None:
    """One bit for each field: one run per bit would take too long."""
    path = segments(RECORDING)[0]
    for byte in (0, 7, 11, 12, 16, 17, 22, 26, 50, 52, 56, 60) if EVERY else (7, 16, 50):
        place = tmp_path / str(byte)
        place.mkdir()
        flip = flip_of(path, byte, 0)
        result = result_of(place, RECORDING, [flip])
        assert _only_true(result), flip
        assert _is_reported(result) or byte in LEADER_EPOCH, flip


def test_a_segment_that_is_there_twice_gives_its_records_once(tmp_path: Path) -> None:
    first = segments(RECORDING)[0]
    extra = f"{first.parent.name}/{int(first.stem) + 1:020d}.log"
    result = result_of(tmp_path, RECORDING, change=lambda source: shutil.copy(first, source / extra))
    assert result.records == truth_of(RECORDING)
    assert _is_reported(result)


def test_segments_that_changed_names_give_no_wrong_record(tmp_path: Path) -> None:
    several = [path for path in segments(RECORDING) if path.parent.name == "orc-0"][:2]
    one, other = (path.relative_to(DATA / RECORDING / "data") for path in several)

    def swap(source: Path) -> None:
        (source / one).write_bytes(several[1].read_bytes())
        (source / other).write_bytes(several[0].read_bytes())

    result = result_of(tmp_path, RECORDING, change=swap)
    assert _only_true(result)
    assert result.records == truth_of(RECORDING) or _is_reported(result)


def _elsewhere(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if (record["topic"], record["partition"]) != ("orc", 0)]


@pytest.mark.parametrize("kept", [0, 1, 60, 61, 1000])
def test_a_segment_that_was_cut_gives_what_is_left_of_it(kept: int, tmp_path: Path) -> None:
    last = max(path for path in segments(RECORDING) if path.parent.name == "orc-0")
    name = last.relative_to(DATA / RECORDING / "data")
    result = result_of(tmp_path, RECORDING, change=lambda source: os.truncate(source / name, kept))
    assert _only_true(result)
    assert _elsewhere(result.records) == _elsewhere(truth_of(RECORDING))


def test_an_object_larger_than_memory_is_read_piece_by_piece(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.huge_object", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(done.stdout)
    assert counts["materialise"]["records"] == 2
    assert counts["index"]["problems"] == 1


def test_names_that_look_the_same_are_two_objects(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    names = {form: unicodedata.normalize(form, "Ünïcode") for form in ("NFC", "NFD")}
    for form, name in names.items():
        place.arrive(f"dt=2024-05-01/orders-0/{name}", form.encode())
    assert {entry.name for entry in place.stage(1).entries} == set(names.values())
