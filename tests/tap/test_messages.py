"""The messages that the tap reads, in every version that it offers."""

import pytest

from spark_jobs.kafka.formats.control_record import ControlType, read_marker
from spark_jobs.kafka.formats.record_batch import read_whole_header
from spark_jobs.tap.messages import (
    ALONE,
    FIRST_PRODUCE,
    LAST_PRODUCE,
    BadMessage,
    read_brokers,
    read_marker_answers,
    read_markers,
    read_produce_answer,
    read_produce_request,
    with_capped_produce,
)
from tests.broker.wire import Writer
from tests.tap.messages import (
    api_versions_response,
    markers_request,
    markers_response,
    produce_request,
    produce_response,
)

VERSIONS = range(FIRST_PRODUCE, LAST_PRODUCE + 1)
PARTS = [("orders", 0, b"first batch"), ("orders", 7, b"x" * 300), ("payments", 1, b"third")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_produce_request_has_its_parts_in_order(version: int) -> None:
    frame = produce_request(PARTS, version=version, acks=1, transactional_id="shop")
    found = read_produce_request(frame)
    assert (found.client_id, found.transactional_id, found.acks) == ("client", "shop", 1)
    assert [(part.topic, part.partition, bytes(part.records)) for part in found.parts] == PARTS


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_request_is_refused(version: int) -> None:
    frame = produce_request(PARTS, version=version)
    for size in range(8, len(frame)):
        try:
            found = read_produce_request(frame[:size])
        except BadMessage:
            continue
        assert len(found.parts) == len(PARTS)  # only the tags at the end are missing


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_has_the_answer_to_each_part(version: int) -> None:
    frame = produce_response([("orders", 0, 0, 42), ("payments", 3, 45, -1)], version=version)
    first, second = read_produce_answer(frame, version)[ALONE]
    assert (first.topic, first.partition, first.error_code, first.base_offset) == ("orders", 0, 0, 42)
    assert (second.topic, second.partition, second.error_code) == ("payments", 3, 45)
    assert (first.is_refused, second.is_refused) == (False, True)


def test_a_client_id_in_another_encoding_is_read_as_a_broker_reads_it() -> None:
    frame = produce_request([("orders", 0, b"one")]).replace(b"client", b"cli\xe4nt")
    assert read_produce_request(frame).client_id == "cli\ufffdnt"


def test_a_duplicate_is_not_refused() -> None:
    (answer,) = read_produce_answer(produce_response([("orders", 0, 46, -1)]), 9)[ALONE]
    assert not answer.is_refused
    assert answer.is_taken


@pytest.mark.parametrize("error", [7, 20])
def test_a_batch_that_only_the_leader_has_is_neither_taken_nor_refused(error: int) -> None:
    (answer,) = read_produce_answer(produce_response([("orders", 0, error, -1)]), 9)[ALONE]
    assert (answer.is_taken, answer.is_refused) == (False, False)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_become_the_batches_that_a_leader_appends(version: int) -> None:
    topics = {"orders": [0, 3], "__consumer_offsets": [7]}
    sent = [(9, 4, True, topics), (10, 0, False, {"orders": [1]}), (11, 1, True, {"__consumer_offsets": [0]})]
    frame = markers_request(sent, version=version)
    found = read_markers(frame, 1_000)
    assert {key: [(part.topic, part.partition) for part in each.parts] for key, each in found.items()} == {
        9: [("orders", 0), ("orders", 3)],
        10: [("orders", 1)],
    }
    assert all(request.is_marker for request in found.values())
    batches = [bytes(request.parts[0].records) for request in found.values()]
    headers, markers = [read_whole_header(raw) for raw in batches], [read_marker(raw) for raw in batches]
    assert [(each.producer_id, each.producer_epoch, each.max_timestamp) for each in headers] == [
        (9, 4, 1_000),
        (10, 0, 1_000),
    ]
    assert [each and (each.control_type, each.coordinator_epoch) for each in markers] == [
        (ControlType.COMMIT, 5),
        (ControlType.ABORT, 5),
    ]
    with pytest.raises(BadMessage):
        read_markers(frame[:40], 1_000)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_answers_to_markers_are_read_by_producer(version: int) -> None:
    frame = markers_response({9: [("orders", 0, 0), ("orders", 3, 6)], 10: []}, version=version)
    found = read_marker_answers(frame, version)
    assert [(each.partition, each.is_taken, each.is_refused) for each in found[9]] == [
        (0, True, False),
        (3, False, True),
    ]
    assert found[10] == ()


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_produce_is_offered_up_to_12_and_nothing_else_changes(version: int) -> None:
    capped = with_capped_produce(api_versions_response(version=version), version)
    assert capped == api_versions_response(version=version, most=LAST_PRODUCE)
    older = api_versions_response(version=version, most=9)
    assert with_capped_produce(older, version) == older


def test_brokers_are_read_from_metadata() -> None:
    written = (
        Writer(flexible=False).put("i", 1).count(1).put("i", 1).text("kafka-1").put("i", 9094).text(None)
    )
    assert read_brokers(bytes(written.out)) == [("kafka-1", 9094)]
    with pytest.raises(BadMessage):
        read_brokers(bytes(written.out)[:-3])
