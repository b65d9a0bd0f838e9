"""The text format holds whatever a topic is called, and the names follow Prometheus' conventions."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.load import InvalidConfig, parse_settings
from spark_jobs.config.settings import Address
from spark_jobs.pipeline.report.metrics import (
    METRICS,
    PUBLISHED_RECORDS,
    STEP_DURATION,
    Metric,
    Sample,
    exposition,
    gauge,
)
from tests.pipeline.report.metrics.reading import only, read

CONFIG = "lake: lake\nsources: [{name: a, kind: capture, root: raw}]\n"
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
)


@given(texts, st.integers(0, 2**53))
def test_a_topic_of_any_name_stays_a_label(topic: str, count: int) -> None:
    text = exposition([Sample(PUBLISHED_RECORDS, count, (topic,))])
    assert read(text) == {PUBLISHED_RECORDS.name: {only({"topic": topic}): count}}


def test_fractions_keep_their_digits() -> None:
    assert 'onceover_step_duration_seconds{step="admit"} 0.125\n' in exposition(
        [Sample(STEP_DURATION, 0.125, ("admit",))]
    )


@given(st.text())
def test_a_topic_of_any_name_stays_one_part_of_a_statsd_name(topic: str) -> None:
    assert re.fullmatch(
        r"onceover\.published_records\.[A-Za-z0-9_-]*:7\|g", gauge(Sample(PUBLISHED_RECORDS, 7, (topic,)))
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_have_our_prefix_and_end_with_a_base_unit_where_there_is_one(metric: Metric) -> None:
    assert re.fullmatch(r"onceover_[a-z]+(_[a-z]+)*", metric.name)
    assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket")), "a run's number is a gauge"
    assert ("timestamp" in metric.name) == metric.name.endswith("_timestamp_seconds")
    assert ("duration" in metric.name) <= metric.name.endswith("_seconds")
    assert metric.help.endswith(".")


def test_no_metric_is_named_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_configuration_names_file_and_server(tmp_path: Path) -> None:
    text = f"{CONFIG}metrics: {{textfile: out/onceover.prom, statsd: 'collector.example:8125'}}\n"
    found = parse_settings(text, name="test.yaml", base=tmp_path).metrics
    assert found.textfile == str(tmp_path / "out" / "onceover.prom")
    assert found.statsd == Address(host="collector.example", port=8125)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("textfile: out/onceover.txt", "a path on this machine that ends with .prom"),
        ("textfile: s3://lake/onceover.prom", "a path on this machine that ends with .prom"),
        ("statsd: collector.example", "host:port, such as 127.0.0.1:8125"),
        ("statsd: 'collector.example:99999'", "host:port, such as 127.0.0.1:8125"),
    ],
)
def test_what_is_no_file_or_address_is_refused_with_what_is_allowed(
    wrong: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(said)):
        parse_settings(f"{CONFIG}metrics: {{{wrong}}}\n", name="test.yaml", base=tmp_path)
