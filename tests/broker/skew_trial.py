"""A live transaction in a copy whose `__transaction_state` is older than its data, as `rsync -a` makes it."""

import subprocess
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import HangingTransaction
from tests.broker.beliefs import differing_records
from tests.broker.clients.librdkafka import CALL_SECONDS, settings_of
from tests.broker.clients.workplace import Workplace
from tests.broker.copies import copy_live
from tests.broker.judge import Broker, java_command
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import Lake, log_lake, today
from tests.broker.truth import create_topics, read_truth

TOPICS = {"orders": (1, "CreateTime")}
ORDERS = TopicPartition("orders", 0)
SEGMENT_BYTES = 1 << 20
LIVE, OTHER = "live", "other"
LIVE_RECORDS = 50
EVENT_TIME_MS = 1_500_000_000_000
"""Records may have the times of old events: these do not show when they were appended."""
Rows = list[dict[str, Any]]


def skew_trial(place: Path, seed: int) -> dict[str, int]:
    """Everything in `place`; raises `BrokenPromise` if the live transaction is not held."""
    broker = Broker((place / "broker").resolve())
    try:
        with lived():
            broker.format()
            broker.start()
            create_topics(broker.address, TOPICS, SEGMENT_BYTES)
        return _live(broker, place, Workplace(address=broker.address, seed=seed))
    finally:
        broker.kill()


def _live(broker: Broker, place: Path, work: Workplace) -> dict[str, int]:
    source = place / "source"
    with lived():
        live = _work(broker, source, work)
    lake = log_lake(place / "lake", source)
    _check_held(lake)
    _check_advice(broker)
    with lived():
        live.commit_transaction(CALL_SECONDS)
        copy_live(broker.data, source)
    lake.run(today())

    with lived():
        truth = read_truth(broker.address, TOPICS)
    expect_none(differing_records(truth, lake.records()), "a later copy that is whole brings what was held")
    return {"records": len(truth), "held": LIVE_RECORDS}


def _work(broker: Broker, source: Path, work: Workplace) -> Producer:
    """Transactions of two producers, copied before and after those of the second round; one stays open."""
    live, other = _producer(work, LIVE), _producer(work, OTHER)
    for producer in (live, other):
        _begin(producer, count=3)
        producer.commit_transaction(CALL_SECONDS)
    copy_live(broker.data, source, names=_is_coordinator)
    _begin(live, count=LIVE_RECORDS, timestamp=EVENT_TIME_MS * (work.seed % 2))
    _begin(other, count=3)
    other.commit_transaction(CALL_SECONDS)
    copy_live(broker.data, source, names=lambda name: not _is_coordinator(name))
    return live


def _is_coordinator(name: str) -> bool:
    return name.startswith("__")


def _producer(work: Workplace, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer(settings_of(work, "none", **settings))
    producer.init_transactions(60.0)
    return producer


def _begin(producer: Producer, *, count: int, timestamp: int = 0) -> None:
    """A transaction with records that have reached the broker."""
    producer.begin_transaction()
    for number in range(count):
        producer.produce("orders", partition=0, value=b"%d" % number, timestamp=timestamp)
    if producer.flush(CALL_SECONDS):
        raise TimeoutError("records did not reach the broker")


def _check_held(lake: Lake) -> None:
    """Yesterday's run on the skewed copy holds the live transaction, and prints no command to abort it."""
    outcome = lake.run(today() - timedelta(days=1))
    rows = lake.rows("transactions")
    expect_none(_commands(rows), "no command for a live transaction")
    expect_none((row for row in rows if row["outcome"] == "hanging"), "no live transaction hangs")
    undecided = [row for row in rows if row["transactional_id"] == LIVE and row["outcome"] == "ongoing"]
    expect_none(
        (row for row in undecided if row["evidence"][0] != "coordinator copy is older"), "the reason is named"
    )
    expect_none([] if len(undecided) == 1 else ["no such row"], "the live transaction is listed as ongoing")
    resolved = next(done for done in outcome.done if done.step is Step.RESOLVE)
    expect_none([] if resolved.counts["held_batches"] else ["none"], "its batches are held")


def _commands(rows: Rows) -> Iterable[str]:
    return (command for row in rows for command in row["abort_commands"])


def _check_advice(broker: Broker) -> None:
    """Kafka's own tool takes the checks as they are printed, and shows that the transaction runs."""
    example = HangingTransaction(
        topic_partition=ORDERS, producer_id=0, producer_epoch=0, start_offset=0, held_back=0
    )
    commands = [part for part in example.advice(LIVE, broker.address).split("`") if "kafka-trans" in part]
    describe_producers, describe, abort = (command.split()[1:] for command in commands)
    said = _tool(describe_producers)
    expect_none([] if "CurrentTransactionStartOffset" in said else [said], "open transactions are shown")
    said = _tool(describe)
    expect_none([] if "Ongoing" in said and str(ORDERS) in said else [said], "the live one is shown as such")
    expect_none([] if abort[2] == "abort" else [abort], "the command comes last")


def _tool(arguments: list[str]) -> str:
    command = java_command("org.apache.kafka.tools.TransactionsCommand", *arguments, heap="256m")
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
