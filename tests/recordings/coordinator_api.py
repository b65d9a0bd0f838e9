"""How a broker answers requests to its transaction coordinator, in the form of a recording's replies."""

from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.sample.broker.coordinator import ProducerIdReply, reply_error
from tests.recordings.broker import Broker
from tests.recordings.events import CoordinatorRequest
from tests.recordings.produce_api import UNKNOWN_TOPIC_OR_PARTITION
from tests.recordings.wire import read_add_partitions_to_txn, read_end_txn, read_init_producer_id

END_TXN_TV2_SINCE = 5
OPERATION_NOT_ATTEMPTED = 55
MOST_TRIES = 3
"""A fenced transaction, its markers, then the new identity: no answer needs more tries."""


def init_producer_id(broker: Broker, event: CoordinatorRequest) -> Mapping[str, Any]:
    """InitProducerId, repeated while the coordinator is busy, as the recorded client did."""
    request = read_init_producer_id(event.request)
    transactional_id = request.transactional_id
    expected = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    for _ in range(MOST_TRIES):
        effects = broker.coordinator.init_producer_id(
            transactional_id,
            timeout_ms=request.transaction_timeout_ms,
            now=broker.time_of_next(transactional_id or ""),
            expected=expected,
        )
        broker.apply(effects)
        if effects.reply.error is not KafkaError.CONCURRENT_TRANSACTIONS:
            break
    return _identity(event, effects.reply)


def add_partitions_to_txn(broker: Broker, event: CoordinatorRequest) -> Sequence[Mapping[str, Any]]:
    """All partitions or none: if one does not exist, none is added."""
    request = read_add_partitions_to_txn(event.request)
    unknown = [tp for tp in request.topic_partitions if tp not in broker.logs]
    if unknown:
        errors = {
            tp: UNKNOWN_TOPIC_OR_PARTITION if tp in unknown else OPERATION_NOT_ATTEMPTED
            for tp in request.topic_partitions
        }
    else:
        effects = broker.coordinator.add_partitions(
            request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=request.topic_partitions,
            now=broker.time_of_next(request.transactional_id),
        )
        broker.apply(effects)
        error = reply_error(event.kind, event.api_version, effects.reply)
        errors = dict.fromkeys(request.topic_partitions, int(error))
    return [
        {"topic": tp.topic, "partition": tp.partition, "error_code": error} for tp, error in errors.items()
    ]


def end_txn(broker: Broker, event: CoordinatorRequest) -> Mapping[str, Any]:
    """Markers are written before the next event: the recorded client waited for them."""
    request = read_end_txn(event.request)
    tv2 = event.api_version >= END_TXN_TV2_SINCE
    effects = broker.coordinator.end_txn(
        request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        result=TransactionResult.COMMIT if request.committed else TransactionResult.ABORT,
        now=broker.time_of_next(request.transactional_id),
        transaction_version=TransactionVersion.TV2 if tv2 else TransactionVersion.TV0,
    )
    broker.apply(effects)
    reply = _identity(event, effects.reply)
    return reply if tv2 else {"error_code": reply["error_code"]}


def txn_state(broker: Broker, transactional_id: str) -> Mapping[str, Any]:
    """The reply to DescribeTransactions."""
    metadata = broker.coordinator.transactions.get(transactional_id)
    if metadata is None:
        return {"error_code": int(KafkaError.TRANSACTIONAL_ID_NOT_FOUND)}
    return {
        "error_code": int(KafkaError.NONE),
        "state": metadata.state.label,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
    }


def _identity(event: CoordinatorRequest, reply: ProducerIdReply) -> Mapping[str, Any]:
    error = reply_error(event.kind, event.api_version, reply.error)
    return {
        "error_code": int(error),
        "producer_id": reply.producer_id,
        "producer_epoch": reply.producer_epoch,
    }
