"""Where a replay takes the broker's time from."""

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.clock import Clock
from tests.recordings.events import Event, Produce, ProducePart, Sleep

HOUR = 3_600_000
LAT = frozenset({"lat"})


def _produce(timestamp: int, *, topic: str = "orc", log_append_time: int = -1, errors: object = ()) -> Event:
    part = ProducePart(
        topic_partition=TopicPartition(topic, 0),
        records=build_batch(records=[Record(value=b"")], base_timestamp=timestamp),
        reply={"log_append_time_ms": log_append_time, "record_errors": errors},
    )
    return Produce(index=0, kind="produce", acks=-1, transactional_id=None, parts=(part,))


def test_a_log_append_time_is_the_brokers_time_from_then_on() -> None:
    events = [_produce(5), _produce(6, topic="lat", log_append_time=700), _produce(7)]
    assert [Clock(events, LAT).at(place) for place in range(3)] == [700, 700, 700]


def test_a_duplicates_time_does_not_turn_the_clock_back() -> None:
    events = [_produce(5, topic="lat", log_append_time=ms) for ms in (700, 800, 700)]
    assert [Clock(events, LAT).at(place) for place in range(3)] == [700, 800, 800]


def test_a_duplicates_time_on_a_create_time_topic_is_a_clients() -> None:
    events = [_produce(5, topic="lat", log_append_time=700), _produce(5, log_append_time=900)]
    assert Clock(events, LAT).at(1) == 700


def test_the_range_of_a_refused_timestamp_gives_the_time() -> None:
    message = f"The timestamp should be within [-12, {HOUR + 42}]"
    assert Clock([_produce(9, errors=[[0, message]])], LAT).at(0) == 42


def test_without_a_word_of_the_broker_the_most_frequent_timestamp_is_now() -> None:
    events = [_produce(ms) for ms in (10 * HOUR, 10 * HOUR, 2 * HOUR, 10 * HOUR + 5)]
    assert Clock(events, frozenset()).at(3) == 10 * HOUR


def test_it_is_never_more_than_an_hour_behind_what_a_broker_took() -> None:
    events = [_produce(ms) for ms in (HOUR, HOUR, 9 * HOUR)]
    assert Clock(events, frozenset()).at(2) == 8 * HOUR


def test_sleeps_move_it_on() -> None:
    events = [_produce(10 * HOUR), Sleep(index=1, kind="sleep", milliseconds=500), _produce(10 * HOUR + 510)]
    assert [Clock(events, frozenset()).at(place) for place in range(3)] == [
        10 * HOUR,
        10 * HOUR + 500,
        10 * HOUR + 510,
    ]


def test_nothing_sent_leaves_it_at_zero() -> None:
    assert Clock([], frozenset()).at(0) == 0
