"""Samples as Prometheus reads them from a file: its text format, version 0.0.4."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from spark_jobs.metrics.catalogue import METRICS, Metric
from spark_jobs.metrics.samples import Sample

ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
"""Topic names come from outside: what they hold must stay inside the quotes."""


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
