"""The sample shows what it says it shows: the pure rules, asked batch by batch, give these very verdicts."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.load import load_settings
from spark_jobs.kafka.coordinator.history import current_values, fold, read_entries
from spark_jobs.kafka.formats.log_files import parse_partition_dir
from spark_jobs.kafka.formats.record_batch import Codec, check_batch, read_header
from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.kafka.log.segment import scan_result
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.files import sample_files, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.sample_truth import batches_in, replay

FIRST, SECOND = (f"dt={run_date}" for run_date in RUN_DATES)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample")
    write_sample(directory)
    return directory


@pytest.fixture(scope="module")
def verdicts(sample: Path) -> dict[str, Counter[Verdict]]:
    """What a broker would answer to the gateway's batches, per run."""
    found = {FIRST: Counter[Verdict](), SECOND: Counter[Verdict]()}
    for run_date, _, _, verdict in replay(sample):
        found[run_date][verdict] += 1
    return found


def test_the_first_run_has_retries_a_gap_a_stale_duplicate_a_zombie_and_a_flipped_bit(
    verdicts: dict[str, Counter[Verdict]],
) -> None:
    refused = {verdict: count for verdict, count in verdicts[FIRST].items() if verdict != Verdict.ACCEPTED}

    assert refused == {
        Verdict.DUPLICATE: 15,
        Verdict.OUT_OF_ORDER: 2,
        Verdict.STALE_DUPLICATE: 1,
        Verdict.FENCED: 2,
        Verdict.CORRUPT: 1,
    }


def test_the_second_run_has_a_retry_of_the_first_a_lost_batch_a_torn_object_and_a_confused_client(
    verdicts: dict[str, Counter[Verdict]],
) -> None:
    refused = {verdict: count for verdict, count in verdicts[SECOND].items() if verdict != Verdict.ACCEPTED}

    assert refused == {
        Verdict.DUPLICATE: 16,
        Verdict.OUT_OF_ORDER: 1,
        Verdict.INVALID_TRANSACTION_STATE: 1,
        Verdict.CORRUPT: 1,
    }


def test_all_codecs_occur(sample: Path) -> None:
    files = sorted((sample / "gateway").rglob("*.batches"))
    headers = (read_header(batch, 0) for file in files for batch in batches_in(file.read_bytes()))

    assert {header.codec_id for header in headers} == set(Codec)


def test_the_coordinator_knows_a_transaction_over_midnight_an_open_one_and_a_decided_one(
    sample: Path,
) -> None:
    assert _states(sample, FIRST) == {
        "checkout-1": TransactionState.ONGOING,
        "checkout-2": TransactionState.COMPLETE_ABORT,
        "fulfilment": TransactionState.COMPLETE_COMMIT,
    }
    assert _states(sample, SECOND) == {
        "checkout-1": TransactionState.COMPLETE_COMMIT,
        "checkout-2": TransactionState.ONGOING,
        "fulfilment": TransactionState.PREPARE_COMMIT,
    }


def _states(sample: Path, run_date: str) -> dict[str, TransactionState]:
    states: dict[str, TransactionLogValue] = {}
    for directory in (sample / "backup" / run_date / "broker-1").glob("__transaction_state-*"):
        log = b"".join(file.read_bytes() for file in sorted(directory.glob("*.log")))
        entries = (read_entries(check_batch(batch), read_records(batch)) for batch in batches_in(log))
        states |= current_values(fold(chain.from_iterable(entries)))
    return {name: value.transaction_status for name, value in sorted(states.items())}


def test_the_first_copy_of_a_log_is_torn_and_the_second_continues_where_it_was(sample: Path) -> None:
    first, second = (
        (sample / "backup" / run_date / "broker-1/shipments-1/00000000000000000000.log").read_bytes()
        for run_date in (FIRST, SECOND)
    )

    assert second.startswith(first)
    assert scan_result(first).problem is not None
    assert scan_result(second).problem is None


def test_the_sample_is_the_same_every_time_and_its_configuration_valid(sample: Path) -> None:
    written = {
        str(file.relative_to(sample)): file.read_bytes() for file in sample.rglob("*") if file.is_file()
    }

    assert written == dict(sample_files())
    assert [source.name for source in load_settings(sample / "onceover.yaml").sources] == [
        "gateway",
        "backup",
    ]
    assert all(parse_partition_dir(file.parent.name) for file in sample.rglob("*.batches"))


def test_the_command_writes_it_and_says_how_to_run_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sample", str(tmp_path)])

    assert done.stdout.splitlines()[0].endswith(
        f"--config {tmp_path / 'onceover.yaml'} --date {RUN_DATES[0]}"
    )
    assert (tmp_path / "gateway" / FIRST).is_dir()
