"""What happens in the shop on two days: mostly business, and now and then what goes wrong in real life."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time

from spark_jobs.protocol.hashes import partition_for_key
from spark_jobs.protocol.record_batch import Codec
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.sample.cluster import Cluster
from spark_jobs.sample.producer import Event, Producer

RUN_DATES = (date(2026, 3, 1), date(2026, 3, 2))
LOGGED_TOPICS = frozenset({"shipments"})
PARTITIONS = {"orders": 3, "payments": 1, "visits": 2, "shipments": 2}
ROUNDS = 40
"""How often each client has its turn in a day."""
SECOND, MINUTE = 1000, 60_000
PAGES = ("home", "search", "basket", "checkout", "help")


def midnight(day: date) -> int:
    """The beginning of `day` in UTC, in ms since 1970."""
    return int(datetime.combine(day, time(), UTC).timestamp()) * 1000


def partition_of(topic: str, key: str) -> TopicPartition:
    """Where the default partitioner puts a record."""
    return TopicPartition(topic, partition_for_key(key.encode(), PARTITIONS[topic]))


@dataclass(slots=True)
class Shop:
    """The clients and the numbers that run on from day to day."""

    cluster: Cluster = field(default_factory=lambda: Cluster(midnight(RUN_DATES[0]), LOGGED_TOPICS))
    web: dict[Codec, Producer] = field(default_factory=dict)
    checkouts: list[Producer] = field(default_factory=list)
    fulfilment: Producer = field(init=False)
    orders: int = 1000
    visits: int = 0

    def __post_init__(self) -> None:
        self.web = {
            codec: Producer(self.cluster, f"web-{codec.name.lower()}", codec=codec) for codec in Codec
        }
        self.checkouts = [
            Producer(self.cluster, name, transactional_id=name, codec=codec)
            for name, codec in (("checkout-1", Codec.LZ4), ("checkout-2", Codec.ZSTD))
        ]
        self.fulfilment = Producer(self.cluster, "fulfilment", transactional_id="fulfilment")

    def business(self, day: date, incidents: dict[int, Callable[[], None]]) -> None:
        """A day's ordinary traffic; what is special happens before the round that it is listed under."""
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

    def order(self, producer: Producer) -> None:
        """An order and its payment, as part of the producer's transaction."""
        self.orders += 1
        key, total = f"order-{self.orders}", self.orders * 7919 % 20_000 / 100
        customer = f"customer-{self.orders * 31 % 400}"
        producer.send(partition_of("orders", key), [(key, {"customer": customer, "total": total})])
        paid = {"order": key, "amount": total, "method": ("card", "invoice")[self.orders % 2]}
        producer.send(partition_of("payments", customer), [(customer, paid)])

    def visits_of(self, producer: Producer) -> TopicPartition:
        """A web server writes to one partition for a while, as clients without keys do."""
        return TopicPartition("visits", list(self.web.values()).index(producer) % PARTITIONS["visits"])

    def _page_view(self) -> Event:
        self.visits += 1
        page = PAGES[self.visits * 7 % len(PAGES)]
        return None, {"visitor": self.visits * 13 % 997, "page": page, "visit": self.visits}

    def _visit(self, number: int) -> None:
        """Every web server reports; some answers get lost, and then it sends the batch again."""
        for turn, producer in enumerate(self.web.values()):
            self.cluster.now += SECOND
            batch = producer.send(self.visits_of(producer), self.page_views(4 + (number + turn) % 9))
            if (number + 3 * turn) % 13 == 5:
                self.cluster.deliver(self.visits_of(producer), batch)

    def _sell(self, number: int) -> None:
        """One transaction per checkout; a customer who changes his mind makes it abort."""
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
        """Of the last orders, with the partitions that they belong to."""
        for number in range(self.orders - count, self.orders):
            key, parcel = f"order-{number}", {"parcel": number * 3, "weight": number * 17 % 900 / 100}
            yield partition_of("shipments", key), (key, parcel)

    def _rotate(self) -> None:
        for partition in tuple(self.cluster.captured):
            self.cluster.rotate(partition)
