import pytest

from spark_jobs.kafka.formats.tier_files import (
    TierFile,
    foreign_layout,
    parse_aiven,
    parse_local,
    parse_pinterest,
    parse_tier_name,
)

TOPIC_ID, SEGMENT_ID = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"
START = "00000000000000001234"


def file(topic: str, partition: int, part: str = "log") -> TierFile:
    return TierFile(
        topic=topic,
        partition=partition,
        topic_id=TOPIC_ID,
        start_offset=1234,
        segment_id=SEGMENT_ID,
        part=part,
    )


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("a-b-3", 7), ("x.y_z-0", 12)])
def test_a_local_upload_names_topic_partition_and_topic_id(topic: str, partition: int) -> None:
    parts = ["kafka-tiered-storage", f"{topic}-{partition}-{TOPIC_ID}", f"{START}-{SEGMENT_ID}.log"]
    assert parse_local(parts) == file(topic, partition)


def test_ids_may_begin_and_end_with_dashes() -> None:
    topic_id = "-WJ6FHTfRYy67jzwZdeqS-"
    found = parse_local([f"orders-0-{topic_id}", f"{START}-{SEGMENT_ID}.snapshot"])
    assert found is not None
    assert (found.topic, found.partition, found.topic_id, found.part) == ("orders", 0, topic_id, "snapshot")


def test_an_upload_of_aivens_plugin_has_its_partition_as_a_directory() -> None:
    path = f"someprefix/topic-{TOPIC_ID}/7/{START}-{SEGMENT_ID}.rsm-manifest"
    assert parse_aiven(path.split("/")) == file("topic", 7, "rsm-manifest")


def test_pinterests_names_are_kafkas() -> None:
    found = parse_pinterest(f"0110/cluster/orders-3/{START}.log".split("/"))
    assert found is not None
    assert (found.topic, found.partition, found.start_offset, found.topic_id) == ("orders", 3, 1234, "")


@pytest.mark.parametrize(
    "path",
    [
        "object",
        f"{START}-{SEGMENT_ID}.log",
        f"orders-0/{START}-{SEGMENT_ID}.log",
        f"orders-{TOPIC_ID}/{START}-{SEGMENT_ID}.log",
        f"orders-0-{TOPIC_ID}/{START}.log",
        f"orders-0-{TOPIC_ID}/1234-{SEGMENT_ID}.log",
        f"orders-0-{TOPIC_ID}/{'9' * 20}-{SEGMENT_ID}.log",
        f"orders-9999999999-{TOPIC_ID}/{START}-{SEGMENT_ID}.log",
    ],
)
def test_other_paths_are_no_local_uploads(path: str) -> None:
    assert parse_local(path.split("/")) is None


@pytest.mark.parametrize(
    "path", [f"orders-{TOPIC_ID}/x/{START}-{SEGMENT_ID}.log", f"0/{START}-{SEGMENT_ID}.log"]
)
def test_other_paths_are_no_uploads_of_aivens_plugin(path: str) -> None:
    assert parse_aiven(path.split("/")) is None


def test_a_name_without_an_id_is_a_segment_of_a_log_directory() -> None:
    assert parse_tier_name(f"{START}.log") is None


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("b525cddd/kafka/orders/0_19/4886-1-v1.log.2", "Redpanda"),
        ("a1b2c3d4/kafka/orders/0_19/4886-9000-1048576-1-v1.log.2", "Redpanda"),
        ("warehouse/orders/data/00000-0-4f.parquet", "Iceberg"),
        (f"orders-0-{TOPIC_ID}/{START}-{SEGMENT_ID}.log", ""),
    ],
)
def test_layouts_that_are_not_read_are_recognised(path: str, sentence: str) -> None:
    found = foreign_layout([path])
    assert sentence in found
    assert bool(found) is bool(sentence)
