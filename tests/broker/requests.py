"""The five requests that recordings hold, each sent raw and given back as an event of `replies.jsonl`."""

import base64
from collections.abc import Sequence
from typing import Any

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from tests.broker.wire import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
    Connection,
    Reader,
    body,
    reply_reader,
)

Event = dict[str, Any]
Part = tuple[str, int, bytes]


def b64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _frames(request: bytes, response: bytes | None) -> Event:
    return {"request_b64": b64(request), "response_b64": b64(response)}


def _header(batch: bytes) -> Event | None:
    if len(batch) < HEADER_SIZE:
        return None
    header = read_header(batch)
    return {
        "attributes": header.attributes,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_offset_delta": header.last_offset_delta,
        "count": header.record_count,
        "max_timestamp": header.max_timestamp,
        "magic": header.magic,
        "base_offset": header.base_offset,
    }


def _error_name(code: int) -> str:
    return KafkaError(code).name if code in set(KafkaError) else str(code)


def _record_error(reader: Reader) -> list[Any]:
    error = [reader.take("i"), reader.text()]
    reader.tags()
    return error


def _part_reply(reader: Reader) -> Event:
    partition, error_code, base_offset, append_time, log_start = reader.take("ihqqq")
    errors = [_record_error(reader) for _ in range(reader.count())]
    message = reader.text()
    reader.tags()
    return {
        "partition": partition,
        "error_code": error_code,
        "base_offset": base_offset,
        "log_append_time_ms": append_time,
        "log_start_offset": log_start,
        "record_errors": errors,
        "error_message": message,
        "error": _error_name(error_code),
    }


def produce(
    connection: Connection,
    parts: Sequence[Part],
    *,
    label: str,
    version: int,
    acks: int,
    tid: str | None = None,
) -> Event:
    """One produce request; topics of `parts` must be distinct or adjacent."""
    request = body(PRODUCE, version).text(tid).put("hi", acks, 30000).count(len(parts))
    for topic, partition, batch in parts:
        request.text(topic).count(1).put("i", partition).data(batch).tags().tags()
    sent, received = connection.ask(PRODUCE, version, request.tags(), answered=acks != 0)
    replies = {}
    if received is not None:
        reader = reply_reader(PRODUCE, version, received)
        for _ in range(reader.count()):
            topic_name = reader.text()
            for _ in range(reader.count()):
                reply = _part_reply(reader)
                replies[topic_name, reply.pop("partition")] = reply
            reader.tags()
    events = [
        {
            "topic": topic,
            "partition": partition,
            "records_b64": b64(batch),
            "hdr": _header(batch),
            "reply": replies.get((topic, partition)),
        }
        for topic, partition, batch in parts
    ]
    head = {"t": "produce", "label": label, "api_key": PRODUCE, "api_version": version, "acks": acks}
    return head | {"transactional_id": tid, "parts": events, "note": None} | _frames(sent, received)


def init_producer_id(
    connection: Connection, *, label: str, tid: str | None = None, timeout: int = 60000, version: int = 4
) -> Event:
    request = body(INIT_PRODUCER_ID, version).text(tid).put("iqh", timeout, -1, -1).tags()
    sent, received = connection.ask(INIT_PRODUCER_ID, version, request)
    _, error_code, producer_id, epoch = reply_reader(INIT_PRODUCER_ID, version, received or b"").take("ihqh")
    reply = {"error_code": error_code, "producer_id": producer_id, "producer_epoch": epoch}
    args = {} if tid is None else {"tid": tid, "timeout": timeout, "ver": version}
    head = {"t": "init_producer_id", "label": label, "reply": reply}
    return head | _frames(sent, received) | {"args": args, "api_version": version}


def add_partitions(
    connection: Connection, *, label: str, tid: str, pid: int, epoch: int, tps: Sequence[tuple[str, int]]
) -> Event:
    version = 3
    request = body(ADD_PARTITIONS_TO_TXN, version).text(tid).put("qh", pid, epoch).count(len(tps))
    for topic, partition in tps:
        request.text(topic).count(1).put("i", partition).tags()
    sent, received = connection.ask(ADD_PARTITIONS_TO_TXN, version, request.tags())
    reader = reply_reader(ADD_PARTITIONS_TO_TXN, version, received or b"")
    reader.take("i")
    replies = []
    for _ in range(reader.count()):
        topic_name = reader.text()
        for _ in range(reader.count()):
            partition, error_code = reader.take("ih")
            reader.tags()
            replies.append({"topic": topic_name, "partition": partition, "error_code": error_code})
        reader.tags()
    args = {"tid": tid, "pid": pid, "epoch": epoch, "tps": [list(tp) for tp in tps]}
    head = {"t": "add_partitions_to_txn", "label": label, "reply": replies}
    return head | _frames(sent, received) | {"args": args, "api_version": version}


def end_txn(
    connection: Connection, *, label: str, tid: str, pid: int, epoch: int, commit: bool, version: int
) -> Event:
    request = body(END_TXN, version).text(tid).put("qhb", pid, epoch, commit).tags()
    sent, received = connection.ask(END_TXN, version, request)
    reader = reply_reader(END_TXN, version, received or b"")
    _, error_code = reader.take("ih")
    reply = {"error_code": error_code}
    if version >= 5:
        reply["producer_id"], reply["producer_epoch"] = reader.take("qh")
    args = {"tid": tid, "pid": pid, "epoch": epoch, "commit": commit}
    head = {"t": "end_txn", "label": label, "reply": reply}
    return head | _frames(sent, received) | {"args": args, "api_version": version}


def txn_state(connection: Connection, tid: str) -> Event:
    request = body(DESCRIBE_TRANSACTIONS, 0).count(1).text(tid).tags()
    _, received = connection.ask(DESCRIBE_TRANSACTIONS, 0, request)
    reader = reply_reader(DESCRIBE_TRANSACTIONS, 0, received or b"")
    reader.take("i")
    reader.count()
    error_code = reader.take("h")
    reader.text()
    state = reader.text()
    _timeout, _start, pid, epoch = reader.take("iqqh")
    event = {"t": "txn_state", "tid": tid, "error_code": error_code, "state": state}
    return event | {"producer_id": pid, "producer_epoch": epoch}


def find_coordinator(connection: Connection, tid: str) -> int:
    """The error of a look-up of `tid`'s coordinator; asking makes the broker create its log."""
    request = body(FIND_COORDINATOR, 3).text(tid).put("b", 1).tags()
    _, received = connection.ask(FIND_COORDINATOR, 3, request)
    _, error_code = reply_reader(FIND_COORDINATOR, 3, received or b"").take("ih")
    return int(error_code)
