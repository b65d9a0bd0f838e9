"""Replay one conversation against the broker in memory, comparing every answer with the recorded one."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings import coordinator_api
from tests.recordings.broker import Broker
from tests.recordings.clock import Clock
from tests.recordings.difference import Difference, fields
from tests.recordings.events import (
    CoordinatorRequest,
    DeleteRecords,
    Event,
    Meta,
    Produce,
    Remark,
    Restart,
    Sleep,
    TxnState,
    Unknown,
)
from tests.recordings.log_directory import LogDirectory
from tests.recordings.produce_api import PartitionReply, produce
from tests.recordings.recording import Conversation
from tests.recordings.settings import settings_of

NAME_OF_THE_ERROR = "error"
NOT_REQUESTS = (Meta, Remark, Restart, Sleep, Unknown)


class Replay:
    """One broker that answers the events of one conversation, in their order."""

    def __init__(self, conversation: Conversation, logs: LogDirectory) -> None:
        self.conversation = conversation
        settings = settings_of(conversation.events, logs)
        self.clock = Clock(conversation.events, settings.log_append_topics)
        self.broker = Broker(settings, logs, self.clock.at(0))

    @property
    def requests(self) -> int:
        return sum(not isinstance(event, NOT_REQUESTS) for event in self.conversation.events)

    def run(self) -> Iterator[Difference]:
        """Answers all events; an event that cannot be answered does not stop the replay."""
        for place, event in enumerate(self.conversation.events):
            where = f"{self.conversation.name} {event.name}"
            try:
                self.broker.advance(self.clock.at(place), is_reported=self.clock.is_reported)
                yield from self._answer(event, where)
            except Exception as error:  # noqa: BLE001 - whatever breaks here is a difference to report, not the end
                yield failure(where, error)

    def shut_down(self, *, clean: bool) -> None:
        """Bring the logs to the state in which the recorded ones were copied."""
        self.broker.shut_down(clean=clean)

    def _log_starts_after(self, restart: Restart) -> Mapping[TopicPartition, int]:
        """Log starts in the replies after `restart`, until they change again."""
        reported: dict[TopicPartition, int | None] = {}
        events = self.conversation.events
        for event in events[events.index(restart) + 1 :]:
            if isinstance(event, Restart):
                break
            if isinstance(event, DeleteRecords):
                reported.setdefault(event.topic_partition, None)
            for part in event.parts if isinstance(event, Produce) else ():
                offset = (part.reply or {}).get("log_start_offset")
                if offset is not None and offset >= 0:
                    reported.setdefault(part.topic_partition, offset)
        return {topic_partition: offset for topic_partition, offset in reported.items() if offset is not None}

    def _answer(self, event: Event, where: str) -> Iterator[Difference]:
        match event:
            case Produce():
                yield from _compare_produce(where, event, produce(self.broker, event))
            case CoordinatorRequest():
                yield from _compare_coordinator(where, event, ANSWERS[event.kind](self.broker, event))
            case TxnState():
                state = coordinator_api.txn_state(self.broker, event.transactional_id)
                yield from fields(where, event.reply, {**event.reply, **state})
            case Restart():
                self.broker.restart(clean=event.clean, log_starts=self._log_starts_after(event))
            case DeleteRecords():
                self.broker.delete_records(event.topic_partition, event.offset)
            case Unknown():
                yield Difference(
                    where=where, field="kind", recorded=event.kind, replayed="nothing: an unknown kind"
                )


ANSWERS: Mapping[str, Callable[[Broker, CoordinatorRequest], Any]] = {
    "init_producer_id": coordinator_api.init_producer_id,
    "add_partitions_to_txn": coordinator_api.add_partitions_to_txn,
    "end_txn": coordinator_api.end_txn,
}


def failure(where: str, error: Exception) -> Difference:
    """A comparison that could not be made."""
    return Difference(
        where=where, field="comparison", recorded="an answer", replayed=f"{type(error).__name__}: {error}"
    )


def _compare_produce(
    where: str, event: Produce, replies: Mapping[Any, PartitionReply]
) -> Iterator[Difference]:
    for part in event.parts:
        if part.reply is not None:
            recorded = _reported(part.reply)
            reply = replies[part.topic_partition]
            replayed = {name: getattr(reply, name) for name in recorded}
            yield from fields(f"{where} {part.topic_partition}", recorded, replayed)


def _reported(reply: Mapping[str, Any]) -> Mapping[str, object]:
    """The fields that a reply of its version has, texts reduced to what is compared."""
    reported: dict[str, object] = {
        name: reply[name] for name in ("error_code", "base_offset", "log_append_time_ms")
    }
    if reply.get("log_start_offset") is not None:
        reported["log_start_offset"] = reply["log_start_offset"]
    if "record_errors" in reply:
        reported["refused_records"] = tuple(index for index, _ in reply["record_errors"])
    if "error_message" in reply:
        reported["has_message"] = reply["error_message"] is not None
    return reported


def _compare_coordinator(where: str, event: CoordinatorRequest, replayed: Any) -> Iterator[Difference]:
    if isinstance(event.reply, Mapping):
        recorded = {name: value for name, value in event.reply.items() if name != NAME_OF_THE_ERROR}
        yield from fields(where, recorded, replayed)
        return
    if event.reply is None:
        return
    answers = {(answer["topic"], answer["partition"]): answer["error_code"] for answer in replayed}
    for answer in event.reply:
        place = (answer["topic"], answer["partition"])
        recorded = {"error_code": answer["error_code"]}
        yield from fields(f"{where} {place[0]}-{place[1]}", recorded, {"error_code": answers.get(place)})
