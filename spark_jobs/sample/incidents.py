"""Incidents, one function each: its name describes the incident that the run's verdicts must show."""

from collections.abc import Callable

from spark_jobs.protocol.record_batch import Codec
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.sample.producer import Producer
from spark_jobs.sample.story import SECOND, Shop

Schedule = dict[int, Callable[[], None]]
"""What happens before which round of a day."""
LATE = 7
"""More batches than a broker remembers of a producer."""


def a_batch_overtaken_by_two_others_is_sent_again_with_them(shop: Shop) -> None:
    """Two `out_of_order`; then all three are accepted in order."""
    producer = shop.web[Codec.SNAPPY]
    partition = shop.visits_of(producer)
    lost, *others = [producer.prepare(partition, shop.page_views(6)) for _ in range(3)]
    for batch in (*others, lost, *others):
        shop.cluster.now += SECOND
        shop.cluster.deliver(partition, batch)


def a_bit_flips_on_the_way(shop: Shop) -> None:
    """`corrupt`, and the retry is accepted."""
    producer = shop.web[Codec.GZIP]
    partition = shop.visits_of(producer)
    batch = producer.prepare(partition, shop.page_views(8))
    damaged = bytearray(batch)
    damaged[-5] ^= 0x10
    shop.cluster.deliver(partition, bytes(damaged))
    shop.cluster.deliver(partition, batch)


def an_answer_comes_so_late_that_the_batch_is_forgotten(shop: Shop) -> None:
    """`stale_duplicate`: its sequences are taken, but the broker knows only the last five batches."""
    producer = shop.web[Codec.NONE]
    partition = shop.visits_of(producer)
    first, *_ = [producer.send(partition, shop.page_views(3)) for _ in range(LATE)]
    shop.cluster.deliver(partition, first)


def a_zombie_writes_after_its_successor_took_over(shop: Shop) -> None:
    """The transaction it left open is aborted; what it sends afterwards is `fenced`."""
    old = shop.checkouts[1]
    shop.order(old)
    new = Producer(shop.cluster, old.name, transactional_id=old.transactional_id, codec=old.codec)
    shop.checkouts[1] = new
    shop.order(new)
    new.commit()
    for partition in tuple(old.sequences):
        late = old.prepare(partition, [("order-0", {"customer": "nobody", "total": 0})])
        shop.cluster.deliver(partition, late)


def a_client_forgets_that_it_is_in_a_transaction(shop: Shop) -> None:
    """`invalid_transaction_state`: a plain batch inside its own open transaction; the rest commits."""
    producer = shop.checkouts[0]
    shop.order(producer)
    partition = next(iter(producer.sequences))
    taken = dict(producer.sequences)
    plain = producer.prepare(partition, [("order-0", {"total": 0})], is_transactional=False)
    producer.sequences = taken
    shop.cluster.deliver(partition, plain)
    producer.commit()


def a_batch_is_lost_for_good_and_its_sender_begins_anew(shop: Shop) -> None:
    """The next batch is `out_of_order`; then the client requests a new producer id."""
    producer = shop.web[Codec.LZ4]
    partition = shop.visits_of(producer)
    producer.prepare(partition, shop.page_views(5))
    producer.send(partition, shop.page_views(5))
    producer.introduce()
    producer.send(partition, shop.page_views(5))


def the_gateway_dies_while_it_writes(shop: Shop) -> None:
    """The object ends in half a batch, which is `corrupt`; the retry opens the next object."""
    producer = shop.web[Codec.ZSTD]
    partition = shop.visits_of(producer)
    batch = producer.prepare(partition, shop.page_views(9))
    shop.cluster.deliver(partition, batch[: len(batch) // 2])
    shop.cluster.rotate(partition)
    shop.cluster.deliver(partition, batch)


def a_transaction_begins_before_midnight(shop: Shop) -> None:
    """Open at the end of the first run, so its records are held."""
    shop.cluster.now = midnight_after(shop) - 10 * SECOND
    shop.order(shop.checkouts[0])


def the_transaction_ends_after_midnight(shop: Shop) -> None:
    """Committed in the second run, which publishes its records."""
    shop.cluster.now += 20 * SECOND
    shop.checkouts[0].commit()


def an_answer_gets_lost_at_midnight(shop: Shop) -> tuple[TopicPartition, bytes]:
    """The last batch of the first day is sent again on the second: only the inherited state identifies the
    `duplicate`.
    """
    producer = shop.web[Codec.NONE]
    partition = shop.visits_of(producer)
    return partition, producer.send(partition, shop.page_views(4))


def a_transaction_is_left_open(shop: Shop) -> None:
    """Undecided at the end of the second run: held."""
    shop.cluster.now = midnight_after(shop) - 30 * SECOND
    shop.order(shop.checkouts[1])


def the_backup_is_taken_between_two_markers(shop: Shop) -> None:
    """The coordinator has decided to commit; the copy that lacks the marker is committed all the same."""
    shop.cluster.now = midnight_after(shop) - 20 * SECOND
    for partition, parcel in dict(shop.parcels(20)).items():
        shop.fulfilment.send(partition, [parcel])
    shop.cluster.unreachable.add(TopicPartition("shipments", 1))
    shop.fulfilment.commit()


def midnight_after(shop: Shop) -> int:
    """The end of the day that the cluster's clock is in."""
    day = 24 * 3600 * SECOND
    return shop.cluster.now // day * day + day
