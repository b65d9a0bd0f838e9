"""The shop's traffic on two days: ordinary traffic, and the failure modes seen in production."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time

from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.partitioners import partition_for_key
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.cluster import Event, SampleCluster, SampleProducer

RUN_DATES = (date(2026, 3, 1), date(2026, 3, 2))
LOGGED_TOPICS = frozenset({"shipments"})
PARTITIONS = {"orders": 3, "payments": 1, "visits": 2, "shipments": 2}
ROUNDS = 40
"""How often each client sends in a day."""
SECOND, MINUTE = 1000, 60_000
PAGES = ("home", "search", "basket", "checkout", "help")


def midnight(day: date) -> int:
    """The beginning of `day` in UTC, in ms since 1970."""
    return int(datetime.combine(day, time(), UTC).timestamp()) * 1000


def partition_of(topic: str, key: str) -> TopicPartition:
    """The partition that the default partitioner chooses."""
    return TopicPartition(topic, partition_for_key(key.encode(), PARTITIONS[topic]))


@dataclass(slots=True)
class Shop:
    """The clients, and the counters that continue from day to day."""

    cluster: SampleCluster = field(
        default_factory=lambda: SampleCluster(midnight(RUN_DATES[0]), LOGGED_TOPICS)
    )
    web: dict[Codec, SampleProducer] = field(default_factory=dict)
    checkouts: list[SampleProducer] = field(default_factory=list)
    fulfilment: SampleProducer = field(init=False)
    orders: int = 1000
    visits: int = 0

    def __post_init__(self) -> None:
        self.web = {
            codec: SampleProducer(self.cluster, f"web-{codec.name.lower()}", codec=codec) for codec in Codec
        }
        self.checkouts = [
            SampleProducer(self.cluster, name, transactional_id=name, codec=codec)
            for name, codec in (("checkout-1", Codec.LZ4), ("checkout-2", Codec.ZSTD))
        ]
        self.fulfilment = SampleProducer(self.cluster, "fulfilment", transactional_id="fulfilment")

    def business(self, day: date, incidents: dict[int, Callable[[], None]]) -> None:
        """A day's ordinary traffic; an incident happens before the round that it is scheduled for."""
        for number in range(ROUNDS):
            self.cluster.now = midnight(day) + 6 * 60 * MINUTE + number * 25 * MINUTE
            incidents.get(number, lambda: None)()
            self._visit(number)
            self._sell(number)
            if number % 4 == 0:
                self._ship(number)
            if number % 16 == 15:
                self._rotate()

    def page_views(self, count: int) -> list[Event]:
        return [self._page_view() for _ in range(count)]

    def order(self, producer: SampleProducer) -> None:
        """An order and its payment, as part of the producer's transaction."""
        self.orders += 1
        key, total = f"order-{self.orders}", self.orders * 7919 % 20_000 / 100
        customer = f"customer-{self.orders * 31 % 400}"
        producer.send(partition_of("orders", key), [(key, {"customer": customer, "total": total})])
        paid = {"order": key, "amount": total, "method": ("card", "invoice")[self.orders % 2]}
        producer.send(partition_of("payments", customer), [(customer, paid)])

    def visits_of(self, producer: SampleProducer) -> TopicPartition:
        """A web server writes to one partition for a while, as clients without keys do."""
        return TopicPartition("visits", list(self.web.values()).index(producer) % PARTITIONS["visits"])

    def _page_view(self) -> Event:
        self.visits += 1
        page = PAGES[self.visits * 7 % len(PAGES)]
        return None, {"visitor": self.visits * 13 % 997, "page": page, "visit": self.visits}

    def _visit(self, number: int) -> None:
        """Every web server sends a batch; some replies get lost, and then it sends the batch again."""
        for turn, producer in enumerate(self.web.values()):
            self.cluster.now += SECOND
            batch = producer.send(self.visits_of(producer), self.page_views(4 + (number + turn) % 9))
            if (number + 3 * turn) % 13 == 5:
                self.cluster.deliver(self.visits_of(producer), batch)

    def _sell(self, number: int) -> None:
        """One transaction per checkout; a customer who cancels makes it abort."""
        for turn, producer in enumerate(self.checkouts):
            for _ in range(1 + (number + turn) % 3):
                self.cluster.now += SECOND
                self.order(producer)
            self.cluster.now += SECOND
            producer.abort() if (number + turn) % 6 == 4 else producer.commit()

    def _ship(self, number: int) -> None:
        self.cluster.now += SECOND
        for partition, parcel in self.parcels(2 + number % 3):
            self.fulfilment.send(partition, [parcel])
        self.cluster.now += SECOND
        self.fulfilment.commit()

    def parcels(self, count: int) -> Iterator[tuple[TopicPartition, Event]]:
        """Shipments of the last orders, with their partitions."""
        for number in range(self.orders - count, self.orders):
            key, parcel = f"order-{number}", {"parcel": number * 3, "weight": number * 17 % 900 / 100}
            yield partition_of("shipments", key), (key, parcel)

    def _rotate(self) -> None:
        for partition in tuple(self.cluster.captured):
            self.cluster.rotate(partition)


# Incidents, one function each: its docstring names the verdict that a run must show.
Schedule = dict[int, Callable[[], None]]
"""Incidents by the round of the day before which they happen."""
FIRST_ORDER = "order-1001"
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
    """`stale_duplicate`: its sequences are taken, but a broker remembers only the last five batches."""
    producer = shop.web[Codec.NONE]
    partition = shop.visits_of(producer)
    first, *_ = [producer.send(partition, shop.page_views(3)) for _ in range(LATE)]
    shop.cluster.deliver(partition, first)


def a_zombie_writes_after_its_successor_took_over(shop: Shop) -> None:
    """The transaction it left open is aborted; what it sends afterwards is `fenced`."""
    old = shop.checkouts[1]
    shop.order(old)
    new = SampleProducer(shop.cluster, old.name, transactional_id=old.transactional_id, codec=old.codec)
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


def an_order_is_sent_again_by_another_producer(shop: Shop) -> None:
    """Accepted, since its producer is new; only its business id shows that the first day had the order."""
    producer = SampleProducer(shop.cluster, "import")
    producer.send(
        partition_of("orders", FIRST_ORDER), [(FIRST_ORDER, {"customer": "customer-231", "total": 69.19})]
    )


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
    """The coordinator has decided to commit, so the copy without the marker is committed, too."""
    shop.cluster.now = midnight_after(shop) - 20 * SECOND
    for partition, parcel in dict(shop.parcels(20)).items():
        shop.fulfilment.send(partition, [parcel])
    shop.cluster.unreachable.add(TopicPartition("shipments", 1))
    shop.fulfilment.commit()


def midnight_after(shop: Shop) -> int:
    """The end of the day that the cluster's clock is in."""
    day = 24 * 3600 * SECOND
    return shop.cluster.now // day * day + day
