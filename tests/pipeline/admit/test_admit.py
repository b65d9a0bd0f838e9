"""`admit` on runs made by hand: verdicts, offsets, transactions, state and what adds up."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.log_files import LogFileKind, segment_file_name
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    Codec,
    TimestampType,
    read_header,
    set_max_timestamp,
)
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from spark_jobs.tables.rebuild import STATE_ORIGINS
from tests.cases.admission import CASES, AdmissionCase
from tests.pipeline.admitted import ORDERS, admit
from tests.pipeline.batches import NOON, batch, batch_of, marker
from tests.pipeline.runs import CAPTURE, Place, place_at

MARKERS = CAPTURE + "    markers: true\n"
PARK = CAPTURE + "    on_gap: park\n"
LOGS = "lake: lake\nsources:\n  - {name: kafka, kind: broker-log, root: logs}\n"
FIRST_LOG = "00000000000000000000.log"


def capture(tmp_path: Path, config: str = MARKERS, **objects: bytes) -> Place:
    """Objects `name=bytes` of partition orders-0 on the first run."""
    place = place_at(tmp_path, config)
    for name, data in objects.items():
        place.arrive(f"dt=2024-05-01/orders-0/{name}", data)
    return place


def logs(tmp_path: Path, config: str = LOGS, **replicas: bytes) -> Place:
    """The first segment of orders-0 on each of the replicas."""
    place = place_at(tmp_path, config)
    for replica, data in replicas.items():
        place.arrive(f"{replica}/orders-0/{FIRST_LOG}", data)
    return place


# -- the shared cases ----------------------------------------------------------------------------------------


def _meets(case: AdmissionCase, version: TransactionVersion) -> bool:
    """Whether a capture under `version` judges by the case's rules; TV0 and TV1 judge alike."""
    is_tv2 = {step.rules.transaction_version is TransactionVersion.TV2 for step in case.steps}
    return (
        is_tv2 == {version is TransactionVersion.TV2}
        and not case.start_offset
        and all(
            step.rules.origin
            is (AppendOrigin.COORDINATOR if step.row.header.is_control else AppendOrigin.CLIENT)
            for step in case.steps
        )
    )


@pytest.mark.parametrize("version", [TransactionVersion.TV1, TransactionVersion.TV2])
def test_captured_cases_end_as_their_tables_say(tmp_path: Path, version: TransactionVersion) -> None:
    cases = [case for case in CASES if _meets(case, version)]
    place = place_at(tmp_path, f"{MARKERS}kafka: {{transaction_version: {version}}}\n")
    for number, case in enumerate(cases):
        data = b"".join(batch_of(step.row) for step in case.steps)
        place.arrive(f"dt=2024-05-01/cases-{number}/a", data)

    run = admit(place, 1)

    for number, case in enumerate(cases):
        rows = run.batches(TopicPartition("cases", number))
        assert [row["verdict"] for row in rows] == [step.expected.verdict for step in case.steps], case.title
        for row, step in zip(rows, case.steps, strict=True):
            assert row["kafka_error"] == step.expected.verdict.kafka_error.name
            if step.expected.base_offset is not None:
                assert (row["offset"] if row["offset"] is not None else -1) == step.expected.base_offset


def test_replicated_cases_end_as_their_tables_say(tmp_path: Path) -> None:
    cases = [
        case for case in CASES if {step.rules.origin for step in case.steps} == {AppendOrigin.REPLICATION}
    ]
    place = place_at(tmp_path, LOGS)
    for number, case in enumerate(cases):
        data = b"".join(batch_of(step.row) for step in case.steps)
        first = case.steps[0].row.header.base_offset
        place.arrive(f"cases-{number}/{segment_file_name(first, LogFileKind.LOG)}", data)

    run = admit(place, 1)

    assert cases
    for number, case in enumerate(cases):
        partition = TopicPartition("cases", number)
        known = {row["producer_id"]: row for row in run.state(partition).producers}
        for expected in case.remembered:
            assert known[expected.producer_id]["producer_epoch"] == expected.producer_epoch, case.title


# -- captures ------------------------------------------------------------------------------------------------


def test_every_batch_has_a_verdict_and_the_counts_add_up(tmp_path: Path) -> None:
    damaged = bytearray(batch(1))
    damaged[-1] ^= 1
    place = capture(
        tmp_path, a=batch(0) + batch(0) + bytes(damaged), b=batch(5) + batch(1), c=batch(2)[:-3] + bytes(9)
    )

    run = admit(place, 1)

    assert run.verdicts() == ["accepted", "duplicate", "corrupt", "out_of_order", "accepted", "corrupt"]
    assert run.offsets() == [0, 0, None, None, 1, None]
    row = run.partitions()[ORDERS]
    groups = {name: row[name] for name in ("accepted", "duplicate", "rejected", "corrupt", "held")}
    assert groups == {"accepted": 2, "duplicate": 1, "rejected": 1, "corrupt": 2, "held": 0}
    assert row["rows"] == sum(groups.values())
    assert (row["start_offset"], row["end_offset"]) == (0, 2)


def test_a_refused_batch_says_what_was_expected_and_what_was_found(tmp_path: Path) -> None:
    place = capture(tmp_path, a=batch(0) + batch(7) + batch(0, epoch=2) + batch(1, epoch=1))

    rows = admit(place, 1).batches()

    assert rows[1]["reason"] == "expected sequence 1 of epoch 0, found 7"
    assert (rows[1]["expected_sequence"], rows[1]["base_sequence"]) == (1, 7)
    assert rows[3]["reason"] == "producer epoch 1 is fenced by epoch 2"
    assert [row["reason"] for row in rows if row["verdict"] == "accepted"] == [None, None]


def test_control_batches_are_refused_where_the_source_does_not_vouch_for_them(tmp_path: Path) -> None:
    place = capture(tmp_path, CAPTURE, a=batch(0, txn=True) + marker(epoch=1))

    run = admit(place, 1)

    assert run.verdicts() == ["accepted", "invalid_record"]
    assert run.batches()[1]["reason"] == "a control batch, which only a coordinator may send"


def test_a_topic_that_stamps_its_own_time_refuses_that_of_producers(tmp_path: Path) -> None:
    claimed = set_max_timestamp(batch(0), TimestampType.LOG_APPEND_TIME, NOON)
    config = MARKERS + "topics: {orders: {message_timestamp_type: LogAppendTime}}\n"
    place = capture(tmp_path, config, a=claimed + batch(0))

    run = admit(place, 1)

    assert run.verdicts() == ["invalid_record", "accepted"]
    assert [row["kafka_error"] for row in run.batches()] == ["INVALID_TIMESTAMP", "NONE"]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("on_gap", ["reject", "park"])
def test_a_compacted_topic_refuses_batches_with_a_record_without_key_as_a_broker_does(
    tmp_path: Path, codec: Codec, on_gap: str
) -> None:
    keys: tuple[list[str | None], ...] = (["a"], ["a", None, "b"], ["c"], ["a", "b", "c"], [None], ["d"])
    sequences = (0, 1, 4, 1, 4, 4)
    batches = [_keyed(found, seq, codec) for found, seq in zip(keys, sequences, strict=True)]
    config = f"{MARKERS}    on_gap: {on_gap}\ntopics: {{orders: {{cleanup_policy: compact}}}}\n"
    place = capture(tmp_path, config, a=b"".join(batches[:2]), b=b"".join(batches[2:]))

    rows = admit(place, 1).batches()

    broker = PartitionLog(PartitionConfig(is_compacted=True), now=NOON)
    answers = [broker.append(each, now=NOON) for each in batches]
    found = {(row["object_order"], row["position"]): row for row in rows}
    in_order = [found[at] for at in sorted(found)]
    if on_gap == "reject":
        assert [row["verdict"] for row in in_order] == [answer.decision.verdict for answer in answers]
        assert [row["kafka_error"] for row in in_order] == [answer.kafka_error.name for answer in answers]
    assert [row["verdict"] for row in in_order][1] == "invalid_record"
    assert in_order[1]["reason"] == "1 of 3 records without a key, in a compacted topic"
    assert in_order[4]["reason"] == "1 of 1 records without a key, in a compacted topic"
    assert [row["offset"] for row in in_order][3:] == [1, None, 4]


def test_a_topic_that_is_not_compacted_takes_records_without_key(tmp_path: Path) -> None:
    run = admit(capture(tmp_path, a=_keyed([None, "a"], 0, Codec.NONE)), 1)
    assert run.verdicts() == ["accepted"]


def _keyed(keys: Sequence[str | None], seq: int, codec: Codec) -> bytes:
    return build_batch(
        records=[
            Record(offset_delta=number, key=None if key is None else key.encode(), value=b"v")
            for number, key in enumerate(keys)
        ],
        base_timestamp=NOON,
        producer_id=1,
        producer_epoch=0,
        base_sequence=seq,
        codec=codec,
    )


def test_a_codec_that_kafka_does_not_have_is_refused_before_it_gets_an_offset(tmp_path: Path) -> None:
    header = read_header(batch(0))
    unknown = seal(replace(header, attributes=header.attributes | 5), batch(0)[HEADER_SIZE:])
    place = capture(tmp_path, a=unknown + batch(0))

    run = admit(place, 1)

    assert run.verdicts() == ["invalid_record", "accepted"]
    assert run.offsets() == [None, 0]
    row = run.batches()[0]
    assert (row["kafka_error"], row["reason"]) == (
        "UNKNOWN_SERVER_ERROR",
        "codec 5, which Kafka does not have",
    )


def test_transactions_of_a_partition_from_first_batch_to_marker(tmp_path: Path) -> None:
    place = capture(
        tmp_path,
        a=batch(0, txn=True, count=2) + batch(0, pid=2, txn=True) + marker(ControlType.ABORT, epoch=1),
        b=batch(0, pid=3) + marker(pid=9, epoch=4),
    )

    run = admit(place, 1)

    found = [
        (row["producer_id"], row["first_offset"], row["batches"], row["records"], row["marker_type"])
        for row in run.transactions()
    ]
    assert found == [(1, 0, 1, 2, 0), (9, 5, 0, 0, 1), (2, 2, 1, 1, None)]
    assert run.partitions()[ORDERS]["first_unstable_offset"] == 2
    assert [row["txn_first_offset"] for row in run.batches()] == [0, 2, 0, None, None]


def test_a_transaction_that_spans_runs_is_one_row_on_the_run_of_its_marker(tmp_path: Path) -> None:
    place = capture(tmp_path, a=batch(0, txn=True, count=3))
    place.arrive("dt=2024-05-02/orders-0/b", batch(3, txn=True) + marker(epoch=1))

    first, second = admit(place, 1), admit(place, 2)

    assert [(row["marker_type"], row["began_before"]) for row in first.transactions()] == [(None, False)]
    [row] = second.transactions()
    assert (row["first_offset"], row["batches"], row["records"]) == (0, 2, 4)
    assert (row["marker_type"], row["marker_offset"], row["began_before"]) == (1, 4, True)


def test_a_partition_without_news_keeps_its_digest(tmp_path: Path) -> None:
    place = capture(tmp_path, a=batch(0))
    place.arrive("dt=2024-05-01/quiet-0/a", batch(0))
    place.arrive("dt=2024-05-02/orders-0/b", batch(1))

    first, second = admit(place, 1), admit(place, 2)

    quiet = TopicPartition("quiet", 0)
    assert first.states()[quiet] == second.states()[quiet]
    assert first.states()[ORDERS] != second.states()[ORDERS]
    assert quiet not in second.partitions()


def test_producers_that_were_idle_for_too_long_expire_when_the_run_begins(tmp_path: Path) -> None:
    place = capture(
        tmp_path, a=batch(0, timestamp=NOON - 86_400_000) + batch(0, pid=2) + batch(0, pid=3, txn=True)
    )
    place.arrive("dt=2024-05-03/orders-0/b", batch(0) + batch(0, pid=2) + batch(0, pid=3, txn=True))

    admit(place, 1)
    later = admit(place, 3)

    assert later.verdicts() == ["accepted", "accepted", "duplicate"]
    [origin] = later.table(Step.REBUILD, STATE_ORIGINS.file).to_pylist()
    assert (origin["origin"], origin["producers"], origin["expired"]) == ("chain", 1, 2)


# -- on_gap: park --------------------------------------------------------------------------------------------


def test_early_batches_wait_for_the_gap_to_fill(tmp_path: Path) -> None:
    place = capture(tmp_path, PARK, a=batch(1) + batch(3), b=batch(0) + batch(2))

    run = admit(place, 1)

    assert [(row["base_sequence"], row["offset"]) for row in run.batches()] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert run.log()[FIRST_LOG] == b"".join(batch(n, at=n, leader_epoch=0) for n in range(4))


def test_a_gap_that_fills_on_a_later_run_lets_the_batch_in_then(tmp_path: Path) -> None:
    place = capture(tmp_path, PARK, a=batch(0) + batch(2) + batch(0, pid=2), b=batch(3))
    place.arrive("dt=2024-05-02/orders-0/c", batch(1, pid=2))
    place.arrive("dt=2024-05-03/orders-0/d", batch(1) + batch(4))

    first, second, third = (admit(place, number) for number in (1, 2, 3))

    assert first.verdicts() == ["accepted", "accepted", "parked", "parked"]
    assert first.batches()[2]["reason"] == "sequence 2 of epoch 0 waits for sequence 1"
    assert second.verdicts() == ["accepted", "parked", "parked"]
    assert [(row["base_sequence"], row["offset"]) for row in third.batches()] == [
        (1, 3),
        (2, 4),
        (3, 5),
        (4, 6),
    ]
    assert [row["object_order"] for row in third.batches()] == [0, -2, -1, 0]
    assert third.log()["00000000000000000003.log"] == b"".join(
        batch(n, at=n + 2, leader_epoch=0) for n in range(1, 5)
    )
    assert third.partitions()[ORDERS]["held"] == 0
    assert third.state().parked == ""


def test_beyond_the_limit_a_gap_is_refused(tmp_path: Path) -> None:
    place = capture(tmp_path, PARK + "limits: {parked_batches: 1}\n", a=batch(0) + batch(2) + batch(4))

    run = admit(place, 1)

    assert sorted(run.verdicts()) == ["accepted", "out_of_order", "parked"]


def test_a_producer_does_not_expire_while_its_batches_are_parked(tmp_path: Path) -> None:
    place = capture(tmp_path, PARK, a=batch(0) + batch(2))
    place.arrive("dt=2024-05-09/orders-0/b", batch(0, pid=2))

    admit(place, 1)
    later = admit(place, 9)

    assert later.verdicts() == ["accepted", "parked"]


# -- broker logs ---------------------------------------------------------------------------------------------


def _log(*numbers: int, leader_epoch: int = 0, value: bytes = b"v") -> bytes:
    return b"".join(batch(n, at=n, leader_epoch=leader_epoch, value=value) for n in numbers)


def test_copies_of_replicas_collapse(tmp_path: Path) -> None:
    run = admit(logs(tmp_path, one=_log(0, 1), two=_log(0, 1, 2)), 1)

    rows = run.batches()
    assert [(row["offset"], row["copy"], row["verdict"]) for row in rows] == [
        (0, 0, "accepted"),
        (0, 1, "overlap"),
        (1, 0, "accepted"),
        (1, 1, "overlap"),
        (2, 1, "accepted"),
    ]
    assert run.state().end_offset == 3


def test_the_newer_leaders_batches_win_over_an_old_leaders_tail(tmp_path: Path) -> None:
    old = _log(0, 1, 2, 3, leader_epoch=1)
    new = _log(0, leader_epoch=1) + _log(1, leader_epoch=3, value=b"other")

    run = admit(logs(tmp_path, old=old, new=new), 1)

    found = [(row["base_offset"], row["partition_leader_epoch"], row["verdict"]) for row in run.batches()]
    assert found == [
        (0, 1, "accepted"),
        (0, 1, "overlap"),
        (1, 3, "accepted"),
        (1, 1, "divergent"),
        (2, 1, "divergent"),
        (3, 1, "divergent"),
    ]
    assert run.state().end_offset == 2


def test_a_checkpoint_has_the_epoch_of_a_leader_that_has_written_nothing_yet(tmp_path: Path) -> None:
    place = logs(tmp_path, old=_log(0, 1, leader_epoch=1), new=_log(0, leader_epoch=1))
    place.arrive("new/orders-0/leader-epoch-checkpoint", b"0\n2\n1 0\n2 1\n")

    assert admit(place, 1).verdicts() == ["accepted", "overlap", "divergent"]


def test_missing_offsets_are_reported_unless_the_topic_is_compacted(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1, 5, 9))
    place.arrive(f"one/compacted-0/{FIRST_LOG}", _log(0, 7))
    config = LOGS + "topics: {compacted: {cleanup_policy: compact}}\n"

    run = admit(place_at(tmp_path, config), 1)

    assert run.gaps() == [(2, 4), (6, 8)]
    assert run.partitions()[ORDERS]["gaps"] == 2


def test_a_compacted_segment_speaks_where_what_it_was_about_to_replace_is_gone(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1))
    place.arrive(f"one/orders-0/{2:020d}.log.swap", _log(2, 4))
    place.arrive(f"one/orders-0/{2:020d}.log.deleted", _log(2, 3, 4))
    place.arrive(f"one/orders-0/{2:020d}.log.cleaned", _log(2))
    place.arrive(f"one/orders-0/{5:020d}.log", _log(5))

    run = admit(place_at(tmp_path, LOGS + "topics: {orders: {cleanup_policy: compact}}\n"), 1)

    assert [(row["offset"], row["verdict"]) for row in run.batches()] == [
        (offset, "accepted") for offset in (0, 1, 2, 4, 5)
    ]
    assert run.gaps() == []


def test_a_compacted_segment_is_silent_where_what_it_was_about_to_replace_is_there(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1, 2))
    place.arrive(f"one/orders-0/{0:020d}.log.swap", _log(0, 2))

    run = admit(place, 1)

    assert [(row["offset"], row["verdict"]) for row in run.batches()] == [
        (0, "accepted"),
        (0, "overlap"),
        (1, "accepted"),
        (2, "accepted"),
        (2, "overlap"),
    ]


def test_a_log_directory_that_grew_over_run_brings_only_its_tail(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1))
    first = admit(place, 1)
    place.arrive(f"one/orders-0/{FIRST_LOG}", _log(0, 1, 2, 3))

    second = admit(place, 2)

    assert second.verdicts() == ["accepted", "accepted"]
    assert first.state().end_offset == 2
    assert second.state().end_offset == 4


def test_a_log_directory_without_news_keeps_its_digest(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1))

    first, second = admit(place, 1), admit(place, 5)

    assert second.partitions() == {}
    assert first.states() == second.states()


def test_offsets_that_a_newer_leader_rewrote_after_they_were_taken_are_divergent(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1, leader_epoch=1))
    admit(place, 1)
    place.arrive(f"one/orders-0/{FIRST_LOG}", _log(0, leader_epoch=1) + _log(1, 2, leader_epoch=2))

    run = admit(place, 2)

    assert run.verdicts() == ["overlap", "divergent", "accepted"]


def test_a_log_that_ends_before_what_was_taken_is_reported(tmp_path: Path) -> None:
    place = logs(tmp_path, one=_log(0, 1, 2))
    admit(place, 1)
    place.arrive(f"one/orders-0/{FIRST_LOG}", _log(0))

    run = admit(place, 2)

    reported = run.lake.read(run.key(Step.ADMIT, "messages.json")).decode()
    assert "critical: orders-0 was staged up to offset 1, but earlier runs have taken it up to 3" in reported
    assert run.state().end_offset == 3


def test_a_plain_batch_inside_an_open_transaction_is_critical_but_taken(tmp_path: Path) -> None:
    data = batch(0, txn=True, at=0) + batch(1, at=1) + marker(ControlType.COMMIT, at=2)

    run = admit(logs(tmp_path, one=data), 1)

    assert run.verdicts() == ["accepted"] * 3
    assert run.batches()[1]["reason"].startswith("critical: ")
    assert run.partitions()[ORDERS]["critical"] == 1
    assert "critical: orders-0" in run.lake.read(run.key(Step.ADMIT, "messages.json")).decode()


def test_a_brokers_log_of_a_captured_partition_has_no_say(tmp_path: Path) -> None:
    config = MARKERS + "  - {name: kafka, kind: broker-log, root: logs}\n"
    place = capture(tmp_path, config, a=batch(0))
    directory = tmp_path / "logs/orders-0"
    directory.mkdir(parents=True)
    (directory / FIRST_LOG).write_bytes(_log(0, 1, 2))

    run = admit(place, 1)

    assert run.verdicts() == ["accepted", "overlap", "overlap", "overlap"]
    assert run.state().end_offset == 1
