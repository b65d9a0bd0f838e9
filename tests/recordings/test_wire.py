"""The frames of recorded requests match the fields that the generator recorded beside them."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.wire import read_add_partitions_to_txn, read_end_txn, read_init_producer_id

DATA = Path(__file__).parent / "data"
RECORDINGS = ("scenarios", "oracle_D", "oracle_E")
DEFAULT_TIMEOUT_MS = 60_000


def _events(recording: str, kind: str) -> list[tuple[bytes, dict[str, Any]]]:
    lines = (DATA / recording / "replies.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["t"] == kind]
    return [(b64decode(event["request_b64"]), event["args"]) for event in events]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_init_producer_id(recording: str) -> None:
    events = _events(recording, "init_producer_id")
    assert events
    for frame, args in events:
        request = read_init_producer_id(frame)
        reported = (request.transactional_id, request.transaction_timeout_ms)
        assert reported == (args.get("tid"), args.get("timeout", DEFAULT_TIMEOUT_MS))
        assert (request.producer_id, request.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("recording", ["scenarios", "oracle_D"])
def test_add_partitions_to_txn(recording: str) -> None:
    events = _events(recording, "add_partitions_to_txn")
    assert events
    for frame, args in events:
        request = read_add_partitions_to_txn(frame)
        reported = (request.transactional_id, request.producer_id, request.producer_epoch)
        assert reported == (args["tid"], args["pid"], args["epoch"])
        assert request.topic_partitions == tuple(TopicPartition(*place) for place in args["tps"])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_end_txn(recording: str) -> None:
    events = _events(recording, "end_txn")
    assert events
    for frame, args in events:
        request = read_end_txn(frame)
        reported = (request.transactional_id, request.producer_id, request.producer_epoch, request.committed)
        assert reported == (args["tid"], args["pid"], args["epoch"], args["commit"])
