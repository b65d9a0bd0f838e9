"""Writes the metrics of a run in Prometheus' text format (0.0.4), and sends them to StatsD as gauges."""

import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from spark_jobs.config.settings import Address, Settings
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.report.metrics import METRICS, RUN_INFO, Metric, Sample, last_run, samples_of
from spark_jobs.pipeline.report.run_tables import RunTables

ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
"""Topic names are foreign input: they must stay inside the quotes."""
PACKET_BYTES = 1432
"""Fits into one packet on common networks."""
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that StatsD reserves, and others that a topic's name may have."""
METRICS_KEY = "metrics/onceover.prom"
"""In the lake; always written."""
READABLE_BY_ALL = 0o644
"""The collector runs as another user."""


def exposition(samples: Iterable[Sample]) -> str:
    """The file's text: metrics in the catalogue's order, each with meaning and type before its samples."""
    ordered = sorted(samples, key=lambda sample: METRICS.index(sample.metric))
    lines = (
        line for metric, group in groupby(ordered, lambda each: each.metric) for line in _lines(metric, group)
    )
    return "".join(f"{line}\n" for line in lines)


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} gauge"
    yield from (f"{metric.name}{_labels(sample)} {_number(sample.value)}" for sample in samples)


def _labels(sample: Sample) -> str:
    pairs = zip(sample.metric.labels, sample.labels, strict=True)
    inside = ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    """Whole numbers as such, so that large ones keep all their digits."""
    return str(int(value)) if value == int(value) else repr(value)


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
    """Packets of as many lines as fit."""
    packet = b""
    for line in lines:
        more = line.encode("ascii")
        if packet and len(packet) + 1 + len(more) > PACKET_BYTES:
            yield packet
            packet = b""
        packet = packet + b"\n" + more if packet else more
    if packet:
        yield packet


def publish(settings: Settings, lake: ObjectStore, *, run_id: str | None) -> str:
    """Writes the metrics of `run_id`, else of the run started last; returns their address in the lake."""
    lines = list_runs(lake)
    chosen = run_id or last_run(lines)
    samples = samples_of(lines, chosen, RunTables(lake, chosen) if chosen else None)
    text = exposition(samples).encode(errors="replace")  # a topic's name may be no text
    lake.put(METRICS_KEY, text)
    if settings.metrics.textfile is not None:
        replace_file(Path(settings.metrics.textfile), text)
    if settings.metrics.statsd is not None:
        send(samples, settings.metrics.statsd)
    return lake.url_of(METRICS_KEY)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces the file atomically, because a collector may read it at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as unfinished:
        unfinished.write(data)
        os.fchmod(unfinished.fileno(), READABLE_BY_ALL)
    Path(unfinished.name).replace(path)
