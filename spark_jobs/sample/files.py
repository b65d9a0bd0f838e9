"""Writes the two days as files: the gateway's objects, copies of the broker's logs, a configuration."""

from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path

from spark_jobs.sample import story as incidents
from spark_jobs.sample.story import RUN_DATES, Shop

CONFIG = "onceover.yaml"
CONFIGURATION = """\
# A shop: what its gateway captured, and nightly copies of its broker's log directory.
lake: lake

sources:
  # Batches as producers sent them, with the markers that the coordinator wrote among them.
  - name: gateway
    kind: capture
    root: gateway
    dates: dt=%Y-%m-%d
    markers: true

  # Copies of log directories: topics that the gateway does not see, and the coordinator's own log.
  - name: backup
    kind: broker-log
    root: backup
    dates: dt=%Y-%m-%d

# An order has its id as the key; an order that is sent again is in the table duplicates.
topics:
  orders:
    dedup: {id: key}

spark:
  master: local[2]
  driver_memory: 1g
"""
TORN_COPY, TORN_BYTES = "shipments-1", 30
"""The first day's copy of this partition ends within its last batch, a marker."""

Files = Iterator[tuple[str, bytes]]


def write_sample(directory: Path) -> None:
    """Writes the sample below `directory`; files of an earlier one are replaced by the same bytes."""
    for path, data in sample_files():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def sample_files() -> Files:
    """Every file of the sample, by path."""
    yield CONFIG, CONFIGURATION.encode()
    shop = Shop()
    first, second = RUN_DATES
    shop.business(first, _first_run(shop))
    incidents.a_transaction_begins_before_midnight(shop)
    unanswered = incidents.an_answer_gets_lost_at_midnight(shop)
    yield from _objects(shop, first)
    yield from _copies(shop, first, torn=TORN_COPY)
    shop.cluster.captured.clear()
    incidents.the_transaction_ends_after_midnight(shop)
    shop.cluster.deliver(*unanswered)
    shop.business(second, _second_run(shop))
    incidents.the_backup_is_taken_between_two_markers(shop)
    incidents.a_transaction_is_left_open(shop)
    yield from _objects(shop, second)
    yield from _copies(shop, second)


def _first_run(shop: Shop) -> incidents.Schedule:
    return {
        7: partial(incidents.a_batch_overtaken_by_two_others_is_sent_again_with_them, shop),
        12: partial(incidents.a_bit_flips_on_the_way, shop),
        19: partial(incidents.an_answer_comes_so_late_that_the_batch_is_forgotten, shop),
        26: partial(incidents.a_zombie_writes_after_its_successor_took_over, shop),
    }


def _second_run(shop: Shop) -> incidents.Schedule:
    return {
        5: partial(incidents.a_client_forgets_that_it_is_in_a_transaction, shop),
        11: partial(incidents.a_batch_is_lost_for_good_and_its_sender_begins_anew, shop),
        21: partial(incidents.the_gateway_dies_while_it_writes, shop),
        30: partial(incidents.an_order_is_sent_again_by_another_producer, shop),
    }


def _objects(shop: Shop, day: date) -> Files:
    """What the gateway wrote that day, an object per rotation."""
    for (topic, partition), objects in sorted(shop.cluster.captured.items()):
        for number, batches in enumerate(filter(None, objects)):
            yield f"gateway/dt={day}/{topic}-{partition}/{number:04d}.batches", b"".join(batches)


def _copies(shop: Shop, day: date, *, torn: str = "") -> Files:
    """The broker's partitions at the end of the day."""
    for (topic, partition), log in sorted(shop.cluster.logs.items()):
        name, newest = f"{topic}-{partition}", log.segments[-1].base_offset
        for file, data in sorted(log.files().items()):
            is_torn = name == torn and file == f"{newest:020d}.log"
            yield f"backup/dt={day}/broker-1/{name}/{file}", data[: -TORN_BYTES if is_torn else None]
