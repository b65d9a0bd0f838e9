"""`onceover explain` as a person calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.kafka.errors import KafkaError
from tests.pipeline.admitted import admit
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import CAPTURE, place_at

CORRUPT = KafkaError.CORRUPT_MESSAGE.name
TORN = "expected 1786080887 bytes, found 36 to the end"
OUT_OF_ORDER = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER.name
CONFIG = CAPTURE + "    markers: true\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two runs of a partition in which this and that was refused."""
    place = place_at(tmp_path, CONFIG)
    place.arrive("dt=2024-05-01/orders-0/a", batch(0, count=3) + batch(0, count=3) + batch(7))
    place.arrive("dt=2024-05-02/orders-0/b", batch(0, pid=2, txn=True) + marker(pid=2, epoch=1) + b"junk" * 9)
    for number in (1, 2):
        admit(place, number)
    path = tmp_path / "onceover.yaml"
    path.write_text(CONFIG)
    return path


def _explain(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", "orders", "0", "--config", str(config), *arguments])


def _reported(config: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _explain(config, *arguments, "--json").stdout.splitlines()]


def test_every_batch_of_every_run_has_its_sentence(config: Path) -> None:
    reported = [answer["sentence"].partition(": ") for answer in _reported(config)]
    assert [(what, became) for what, _, became in reported] == [
        ("batch of producer 1, epoch 0, sequences 0 to 2", "taken at offsets 0 to 2"),
        (
            "batch of producer 1, epoch 0, sequences 0 to 2",
            "duplicate: the batch at sequence 0 of epoch 0 is at offset 0 already",
        ),
        (
            "batch of producer 1, epoch 0, sequence 7",
            f"out_of_order, a broker answers {OUT_OF_ORDER}: expected sequence 3 of epoch 0, found 7",
        ),
        (
            "transactional batch of producer 2, epoch 0, sequence 0",
            "taken at offset 3, in the transaction that begins at offset 3",
        ),
        (
            "commit marker of producer 2, epoch 1",
            "taken at offset 4, ends the transaction that begins at offset 3",
        ),
        (
            "36 bytes",
            f"corrupt, a broker answers {CORRUPT}: torn batch: {TORN}",
        ),
    ]


def test_an_offset_finds_the_batch_that_holds_it_and_its_duplicates(config: Path) -> None:
    answers = _reported(config, "--offset", "2")
    assert [answer["verdict"] for answer in answers] == ["accepted", "duplicate"]
    assert answers[0]["place"] == "gateway/dt=2024-05-01/orders-0/a at byte 0"


def test_a_producer_a_date_and_a_run_narrow_it_down(config: Path) -> None:
    assert [answer["verdict"] for answer in _reported(config, "--producer-id", "2")] == [
        "accepted",
        "accepted",
    ]
    assert len(_reported(config, "--date", "2024-05-01")) == 3
    run_id = _reported(config)[-1]["run_id"]
    assert len(_reported(config, "--run", run_id)) == 3


def test_the_table_shows_verdict_and_reason_and_one_batch_gets_its_sentence(config: Path) -> None:
    result = _explain(config, "--offset", "4")
    assert result.exit_code == 0
    assert "commit marker of producer 2, epoch 1" in result.stdout
    assert "taken at offset 4, ends the transaction that begins at offset 3" in result.stdout


def test_only_the_newest_are_shown_unless_more_are_wanted(config: Path) -> None:
    result = _explain(config, "--most", "2")
    assert "the newest 2 of 6" in result.stdout
    assert "out_of_order" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--offset", "99"), "orders-0: no final run has such a batch"),
        (("--date", "2024-05-09"), "2024-05-09: no run of this date is final"),
        (("--run", "2024-05-09-0000"), "there is no such run"),
    ],
)
def test_a_question_without_answer_is_reported(config: Path, arguments: tuple[str, ...], words: str) -> None:
    result = _explain(config, *arguments)
    assert result.exit_code == 1
    assert words in result.stderr
