"""What consumer groups have committed: committed here in every way, asked of a broker, beside the table."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.broker.admin import Tp
from tests.broker.truth import admin

SECONDS = 30.0
COORDINATOR_BUSY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
PLAIN, MIXED, FORGOTTEN, OPEN_ONLY = "plain", "mixed", "forgotten", "open-only"
GroupPartition = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A committed offset, None in all three where there is none; `is_pending`: another one waits."""

    offset: int | None
    leader_epoch: int | None
    metadata: str | None
    is_pending: bool


GroupOffsets = dict[GroupPartition, GroupOffset]
"""Of every group and partition that has an offset, or waits for one."""


def commit_plainly(address: str) -> None:
    """Offsets without a transaction; those of one group are forgotten again."""
    for group in (PLAIN, MIXED, FORGOTTEN):
        client = _consumer(address, group)
        _commit(client, [_at("pay", 0, 5, "früh"), _at("lat", 0, 1, "")])
        _commit(client, [_at("pay", 0, 7, "später")])
        client.close()
    operator = admin(address)  # held: without its client no answer comes
    for future in operator.delete_consumer_groups([FORGOTTEN]).values():
        future.result(SECONDS)


def _commit(client: Consumer, offsets: list[TopicPartition]) -> None:
    """Again while the group's coordinator is only about to be one: its topic may be new."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def commit_in_transactions(address: str) -> None:
    """Offsets of one group in transactions: committed, then others that are aborted."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "groups", "log_level": 0})
    producer.init_transactions(SECONDS)
    for number, end in ((11, producer.commit_transaction), (17, producer.abort_transaction)):
        producer.begin_transaction()
        send_offsets(producer, address, MIXED, number)
        end(SECONDS)


def send_offsets(producer: Producer, address: str, group: str, number: int) -> None:
    """Offsets of `group` for the transaction that `producer` has open."""
    client = _consumer(address, group)
    held = client.consumer_group_metadata()
    producer.send_offsets_to_transaction([_at("pay", 0, number), _at("pay", 1, number)], held, SECONDS)
    client.close()


def ask_groups(address: str, partitions: Sequence[Tp]) -> GroupOffsets:
    """What the admin API says."""
    client = admin(address)
    groups = [each.group_id for each in client.list_consumer_groups().result(SECONDS).valid]
    return {
        (group, *tp): found
        for group in groups
        for tp, found in _asked(client, group, partitions)
        if found.offset is not None or found.is_pending
    }


def _asked(client: AdminClient, group: str, tps: Sequence[Tp]) -> Iterator[tuple[Tp, GroupOffset]]:
    stable = {_tp(each): each for each in _listed(client, group, tps, require_stable=True)}
    for each in _listed(client, group, tps, require_stable=False):
        error = stable[_tp(each)].error
        is_known = each.offset >= 0
        yield (
            _tp(each),
            GroupOffset(
                offset=each.offset if is_known else None,
                leader_epoch=_epoch(each.leader_epoch) if is_known else None,
                metadata=each.metadata or "" if is_known else None,
                is_pending=error is not None and error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT,
            ),
        )


def _listed(
    client: AdminClient, group: str, tps: Sequence[Tp], *, require_stable: bool
) -> list[TopicPartition]:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*tp) for tp in tps])
    asked = client.list_consumer_group_offsets([wanted], require_stable=require_stable)
    return list(asked[group].result(SECONDS).topic_partitions)


def differing_groups(theirs: GroupOffsets, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The admin API's answers against one run's rows of `consumer_offsets`."""
    ours: GroupOffsets = {}
    for row in sorted(rows, key=lambda row: not row["pending"]):
        key = row["group"], row["topic"], row["partition"]
        before = ours.get(key)
        ours[key] = GroupOffset(
            offset=None if row["pending"] else row["offset"],
            leader_epoch=None if row["pending"] else _epoch(row["leader_epoch"]),
            # Librdkafka sends its strings with their terminator, and takes it off when it shows them.
            metadata=None if row["pending"] else row["metadata"].removesuffix("\0"),
            is_pending=row["pending"] or (before is not None and before.is_pending),
        )
    for key in sorted({*theirs, *ours}):
        if theirs.get(key) != ours.get(key):
            yield f"{key}: broker {theirs.get(key)}, Onceover {ours.get(key)}"


def _epoch(number: int | None) -> int:
    return -1 if number is None else number


def _tp(each: TopicPartition) -> Tp:
    return each.topic, each.partition


def _at(topic: str, partition: int, offset: int, metadata: str = "") -> TopicPartition:
    return TopicPartition(topic, partition, offset, metadata)


def _consumer(address: str, group: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
