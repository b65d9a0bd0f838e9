"""The messages that the tap reads, in every version that it offers."""

import pytest

from spark_jobs.tap.messages import (
    FIRST_PRODUCE,
    LAST_PRODUCE,
    BadMessage,
    read_brokers,
    read_produce_answer,
    read_produce_request,
    with_capped_produce,
)
from tests.broker.wire import Writer
from tests.tap.messages import api_versions_response, produce_request, produce_response

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
    first, second = read_produce_answer(frame, version)
    assert (first.topic, first.partition, first.error_code, first.base_offset) == ("orders", 0, 0, 42)
    assert (second.topic, second.partition, second.error_code) == ("payments", 3, 45)
    assert (first.is_refused, second.is_refused) == (False, True)


def test_a_duplicate_is_not_refused() -> None:
    (answer,) = read_produce_answer(produce_response([("orders", 0, 46, -1)]), 9)
    assert not answer.is_refused


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
