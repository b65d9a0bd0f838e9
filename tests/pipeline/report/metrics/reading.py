"""The text as Prometheus' own client library reads it."""

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Read = dict[str, dict[Labels, float]]


def read(text: str) -> Read:
    """Name → labels → value."""
    return {
        family.name: {frozenset(sample.labels.items()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def types_in(text: str) -> dict[str, str]:
    """Name → type."""
    return {family.name: family.type for family in text_string_to_metric_families(text)}


def only(labels: dict[str, str]) -> Labels:
    """What a sample with these labels is found by."""
    return frozenset(labels.items())
