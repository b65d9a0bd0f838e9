"""Every expectation: a run that meets it, and one that does not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from socket import SOCK_DGRAM, socket
from types import ModuleType
from typing import Any

import pytest

from expectations.gate import Facts, JudgedExpectation, failed
from spark_jobs.config.audit import AuditSettings, ExpectationName, Severity
from tests.contacts import Contacts
from tests.expectations.conftest import Judge
from tests.expectations.runs import run

Failures = Callable[..., list[JudgedExpectation]]

FAILING: dict[ExpectationName, Facts] = {
    ExpectationName.SOURCES_HAVE_OBJECTS: run(source={"is_empty": 1, "remark": "no objects below /data"}),
    ExpectationName.SOURCES_ARE_RECOGNISED: run(source={"is_unrecognised": 1, "remark": "12 objects"}),
    ExpectationName.SOURCES_BRING_NEW_OBJECTS: run(source={"is_stale": 1, "new_objects": 0}),
    ExpectationName.PARTITIONS_ARE_STILL_THERE: run(source={"vanished_partitions": 2}),
    ExpectationName.OBJECTS_CAN_BE_READ: run(source={"unreadable_objects": 1, "remark": "orders-0/1"}),
    ExpectationName.CAPTURED_OBJECTS_CAN_BE_READ: run(source={"unreadable_captures": 1, "remark": "a/1"}),
    ExpectationName.EVERY_BATCH_HAS_ONE_VERDICT: run(partition={"verdicts": 9}),
    ExpectationName.ACCEPTED_OFFSETS_INCREASE: run(partition={"disordered_batches": 1}),
    ExpectationName.ACCEPTED_OFFSETS_HAVE_NO_HOLES: run(partition={"missing_offsets": 3}),
    ExpectationName.NO_OFFSETS_ARE_MISSING: run(partition={"gap_offsets": 10}),
    ExpectationName.ACCEPTED_SEQUENCES_HAVE_NO_GAPS: run(partition={"sequence_gaps": 1}),
    ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS: run(answers={"differing": 1, "remark": "position 0"}),
    ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS: run(partition={"rows": 79}),
    ExpectationName.RECORD_OFFSETS_INCREASE: run(partition={"disordered_rows": 1}),
    ExpectationName.RECORD_SEQUENCES_ARE_UNIQUE: run(partition={"repeated_sequences": 1}),
    ExpectationName.NO_ROW_OF_AN_UNCOMMITTED_TRANSACTION: run(partition={"uncommitted_rows": 4}),
    ExpectationName.EVERY_RECORD_IS_PUBLISHED_OR_A_DUPLICATE: run(ids={"records": 81}),
    ExpectationName.MOST_RECORDS_HAVE_AN_ID: run(ids={"without_id": 41}),
    ExpectationName.MOST_RECORDS_ARE_NO_DUPLICATES: run(
        partition={"rows": 39}, ids={"rows": 39, "duplicates": 41}
    ),
    ExpectationName.TIMESTAMPS_ARE_IN_RANGE: run(partition={"strange_timestamps": 1}),
    ExpectationName.KEYS_ARE_IN_THEIR_PARTITION: run(partition={"keys_elsewhere": 20}),
    ExpectationName.TRANSACTIONS_ARE_WHOLE: run(
        transactions={"torn_transactions": 1, "examples": "producer 7 is not published on orders-1"}
    ),
    ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED: run(transactions={"undecided_batches": 26}),
    ExpectationName.PRODUCER_IDS_HAVE_ONE_OWNER: run(transactions={"shared_producer_ids": 1}),
    ExpectationName.STATE_CHAIN_IS_UNBROKEN: run(partition={"state_breaks": 1}),
    ExpectationName.LAST_STABLE_OFFSET_NEVER_FALLS: run(partition={"last_stable_offset": 99}),
    ExpectationName.MOST_BATCHES_ARE_ACCEPTED: run(
        current={"batches": 50_000, "overlap": 49_000, "rejected": 501}
    ),
    ExpectationName.DUPLICATES_ARE_AS_USUAL: run(current={"duplicate": 200}),
    ExpectationName.OUT_OF_ORDER_IS_AS_USUAL: run(current={"out_of_order": 200}),
    ExpectationName.CORRUPT_IS_AS_USUAL: run(current={"corrupt": 200}),
    ExpectationName.VOLUME_IS_AS_USUAL: run(current={"records": 10_000}),
}


@pytest.fixture(scope="session")
def failures(judged: Judge) -> Failures:
    def find(facts: Facts, **settings: Any) -> list[JudgedExpectation]:
        return [each for each in judged(facts, **settings).findings if each.success is False]

    return find


def test_a_good_run_meets_every_expectation(judged: Judge) -> None:
    findings = judged(run()).findings
    assert {each.expectation for each in findings} == set(ExpectationName)
    assert all(each.success for each in findings)


@pytest.mark.parametrize("name", FAILING)
def test_an_expectation_fails_alone_where_its_number_is_wrong(
    failures: Failures, name: ExpectationName
) -> None:
    (failure,) = failures(FAILING[name])
    assert failure.expectation is name
    assert failure.severity is AuditSettings().severity(name)
    assert failure.examples


def test_every_expectation_has_a_failing_case() -> None:
    assert set(FAILING) == set(ExpectationName)


def test_rows_are_looked_for_where_some_are_wrong_and_change_nothing_where_none_are(
    judged: Judge, great_expectations: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = run(), run(partition={"rows": 79})
    found = judged(good), judged(bad)
    monkeypatch.setattr(great_expectations, "COUNTS", {"result_format": "COMPLETE"})
    monkeypatch.setattr(great_expectations, "_rows_of", lambda _: {"result_format": "BASIC"})
    assert judged(good) == found[0]
    assert judged(bad) != found[1]


def test_a_failure_says_where_how_many_and_what_was_expected(failures: Failures) -> None:
    (failure,) = failures(run(partition={"rows": 79}))
    assert failure.observed == "1 of 2 wrong, by topic and partition"
    assert failure.expected == "rows_expected = rows"
    assert failure.examples == ("rows_expected 80, topic orders, partition 1, rows 79",)


def test_examples_are_few(failures: Failures) -> None:
    facts = run(partition={"rows": 79})
    (failure,) = failures(facts, examples=1)
    assert len(failure.examples) == 1


def test_a_severity_can_be_configured(failures: Failures) -> None:
    (failure,) = failures(
        FAILING[ExpectationName.TIMESTAMPS_ARE_IN_RANGE], severities={"timestamps_are_in_range": "critical"}
    )
    assert failure.severity is Severity.CRITICAL


@pytest.mark.parametrize("name", ExpectationName)
def test_an_expectation_that_is_off_is_not_evaluated_and_shown_as_off(
    judged: Judge, name: ExpectationName
) -> None:
    judgement = judged(FAILING[name], severities={name.value: "off"})
    (off,) = [each for each in judgement.findings if each.success is None]
    assert (off.expectation, off.severity, off.examples) == (name, Severity.OFF, ())
    assert off.observed == "not evaluated: its severity is off"
    assert {each.expectation for each in judgement.findings} == set(ExpectationName)
    assert failed(judgement.findings, Severity.CRITICAL) == failed(judgement.findings, Severity.WARNING) == ()
    assert '<span class="status">off</span>' in judgement.pages["index.html"]


def test_all_expectations_can_be_off(judged: Judge) -> None:
    judgement = judged(run(), severities=dict.fromkeys(map(str, ExpectationName), "off"))
    assert {each.success for each in judgement.findings} == {None}


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        (FAILING[ExpectationName.KEYS_ARE_IN_THEIR_PARTITION], {"keys_elsewhere": 0.5}),
        (FAILING[ExpectationName.DUPLICATES_ARE_AS_USUAL], {"share_above_usual": 0.2}),
        (FAILING[ExpectationName.VOLUME_IS_AS_USUAL], {"volume_factor": 10}),
        (FAILING[ExpectationName.VOLUME_IS_AS_USUAL], {"history_least": 29}),
        (FAILING[ExpectationName.MOST_BATCHES_ARE_ACCEPTED], {"refused_share": 0.6}),
        (FAILING[ExpectationName.MOST_BATCHES_ARE_ACCEPTED], {"share_least": 1001}),
        (FAILING[ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED], {"undecided_share": 0.6}),
        (FAILING[ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED], {"share_least": 51}),
    ],
)
def test_a_threshold_can_be_configured(failures: Failures, facts: Facts, settings: dict[str, Any]) -> None:
    assert failures(facts, **settings) == []


@pytest.mark.parametrize(
    "partition",
    [
        {"rows": 78, "uncertain_records": 5},
        {"rows": 75, "unreadable_records": 5},
        {"rows": 75, "unreadable_records": 2, "unfit_records": 3},
        {"rows": 90, "uncounted_batches": 1},
        {"keys_sampled": 0},
    ],
    ids=["a batch across the log's start", "unreadable batches", "unfit values", "old formats", "no keys"],
)
def test_what_headers_do_not_hold_is_no_failure(failures: Failures, partition: dict[str, int]) -> None:
    assert failures(run(partition=partition)) == []


@pytest.mark.parametrize(
    "partition",
    [
        {"rows": 74, "uncertain_records": 5},
        {"rows": 80, "unreadable_records": 5},
        {"rows": 80, "unfit_records": 5},
        {"rows": 70, "uncounted_batches": 1},
    ],
)
def test_and_excuses_no_more_than_that(failures: Failures, partition: dict[str, int]) -> None:
    (failure,) = failures(run(partition=partition))
    assert failure.expectation is ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS


def test_a_run_without_partitions_is_fine(failures: Failures) -> None:
    full = run()
    empty = Facts(
        sources=full.sources,
        partitions=full.partitions.slice(0, 0),
        transactions=full.transactions.slice(0, 0),
        volumes=full.volumes.slice(0, 0),
    )
    assert failures(empty) == []


def test_judging_opens_no_connection(judged: Judge, contacts: Contacts) -> None:
    judged(run())
    assert contacts.found == []


def test_the_ear_that_says_so_is_not_deaf(contacts: Contacts) -> None:
    with contacts.watched(), socket(type=SOCK_DGRAM) as nobody, suppress(OSError):
        nobody.connect(("192.0.2.1", 9))  # an address for documents; nothing is sent
    assert contacts.found.pop().startswith("socket.connect")


def test_duplicates_by_id_are_no_missing_rows(failures: Failures) -> None:
    assert failures(run(partition={"rows": 77}, ids={"rows": 77, "duplicates": 3})) == []
    missing = failures(run(partition={"rows": 76}, ids={"rows": 77, "duplicates": 3}))
    assert [each.expectation for each in missing] == [ExpectationName.ROWS_ARE_THE_COMMITTED_RECORDS]


def test_a_run_without_business_ids_is_not_judged_by_them(judged: Judge) -> None:
    findings = judged(replace(run(), ids=None)).findings
    assert "duplicates" not in {each.suite for each in findings}
    assert all(each.success for each in findings)
