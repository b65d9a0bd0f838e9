"""Requests and responses as clients and brokers write them, for the tap to read."""

from tests.broker.wire import PRODUCE, WRITE_TXN_MARKERS, Writer, body

API_VERSIONS = 18


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def request_head(api_key: int, version: int, correlation: int, *, flexible: bool) -> bytes:
    head = Writer(flexible=False).put("hhi", api_key, version, correlation).text("client")
    return bytes(head.out) + (b"\0" if flexible else b"")


def produce_request(
    parts: list[tuple[str, int, bytes]],
    *,
    version: int = 9,
    correlation: int = 1,
    acks: int = -1,
    transactional_id: str | None = None,
) -> bytes:
    """A request without its size."""
    written = body(PRODUCE, version).text(transactional_id).put("hi", acks, 30000).count(len(parts))
    for topic, partition, records in parts:
        written.text(topic).count(1).put("i", partition).data(records).tags().tags()
    return request_head(PRODUCE, version, correlation, flexible=version >= 9) + bytes(written.tags().out)


def produce_response(
    answers: list[tuple[str, int, int, int]], *, version: int = 9, correlation: int = 1
) -> bytes:
    """Topic, partition, error code and base offset each."""
    written = body(PRODUCE, version)
    written.put("i", correlation).tags().count(len(answers))
    for topic, partition, error, offset in answers:
        written.text(topic).count(1).put("ihqq", partition, error, offset, -1)
        if version >= 5:
            written.put("q", 0)
        if version >= 8:
            written.count(1).put("i", 0).text("bad record").tags().text("message")
        written.tags().tags()
    return bytes(written.put("i", 0).tags().out)


def api_versions_response(*, version: int = 3, correlation: int = 1, most: int = 13, error: int = 0) -> bytes:
    written = Writer(flexible=version >= 3).put("ih", correlation, error).count(2)
    for api_key, highest in ((PRODUCE, most), (1, 17)):
        written.put("hhh", api_key, 0, highest).tags()
    return bytes(written.put("i", 0).tags().out)


Markers = list[tuple[int, int, bool, dict[str, list[int]]]]
"""Producer id, epoch, whether it commits, and partitions by topic."""


def markers_request(markers: Markers, *, version: int = 2, correlation: int = 1) -> bytes:
    """A WriteTxnMarkers request of a coordinator of epoch 5, without its size."""
    written = body(WRITE_TXN_MARKERS, version).count(len(markers))
    for producer_id, epoch, is_commit, topics in markers:
        written.put("qh?", producer_id, epoch, is_commit).count(len(topics))
        for topic, partitions in topics.items():
            written.text(topic).count(len(partitions)).put(f"{len(partitions)}i", *partitions).tags()
        written.put("i", 5)
        if version >= 2:
            written.put("b", 2)
        written.tags()
    head = request_head(WRITE_TXN_MARKERS, version, correlation, flexible=version >= 1)
    return head + bytes(written.tags().out)


def markers_response(
    answers: dict[int, list[tuple[str, int, int]]], *, version: int = 2, correlation: int = 1
) -> bytes:
    """Topic, partition and error code each, by producer id."""
    written = body(WRITE_TXN_MARKERS, version).put("i", correlation).tags().count(len(answers))
    for producer_id, parts in answers.items():
        written.put("q", producer_id).count(len(parts))
        for topic, partition, error in parts:
            written.text(topic).count(1).put("ih", partition, error).tags().tags()
        written.tags()
    return bytes(written.tags().out)
