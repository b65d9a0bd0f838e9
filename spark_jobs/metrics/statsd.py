"""Samples as StatsD takes them: gauges by UDP, label values as parts of the name."""

import re
import socket
from collections.abc import Iterable, Iterator

from spark_jobs.config.metrics import Address
from spark_jobs.metrics.catalogue import RUN_INFO
from spark_jobs.metrics.samples import Sample

PACKET_BYTES = 1432
"""What fits in a packet on every network that is likely to be on the way."""
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
"""StatsD's own characters, and whatever else a topic's name may hold."""


def send(samples: Iterable[Sample], address: Address) -> None:
    """Sends without waiting for an answer; no server needs to listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outgoing:
        for packet in packets(map(gauge, (each for each in samples if each.metric is not RUN_INFO))):
            outgoing.sendto(packet, (address.host, address.port))


def gauge(sample: Sample) -> str:
    """`onceover.batches.orders.accepted:12|g`."""
    name = sample.metric.name.replace("onceover_", "onceover.", 1)
    parts = (name, *(UNSAFE.sub("_", value) for value in sample.labels))
    return f"{'.'.join(parts)}:{sample.value:.15g}|g"


def packets(lines: Iterable[str]) -> Iterator[bytes]:
    """As many lines in each as fit."""
    packet = b""
    for line in lines:
        more = line.encode("ascii")
        if packet and len(packet) + 1 + len(more) > PACKET_BYTES:
            yield packet
            packet = b""
        packet = packet + b"\n" + more if packet else more
    if packet:
        yield packet
