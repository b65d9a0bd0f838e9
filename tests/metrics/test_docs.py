"""The documentation names every metric with its labels, every verdict with the error that Kafka counts."""

import re
from pathlib import Path

from spark_jobs.metrics.catalogue import METRICS
from spark_jobs.protocol.verdict import KAFKA_ERROR_OF

DOCS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| (`onceover_[^|]*) \| ([^|]*)\|", re.MULTILINE)
VERDICT_ROW = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| `([A-Z_]+)` \|$", re.MULTILINE)


def test_every_metric_is_told_with_its_labels() -> None:
    told = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for names, labels in ROW.findall(DOCS)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == {metric.name: metric.labels for metric in METRICS}


def test_every_verdict_is_told_with_the_error_that_a_broker_counts() -> None:
    told = {
        verdict: error
        for verdicts, error in VERDICT_ROW.findall(DOCS)
        for verdict in re.findall(r"`(\w+)`", verdicts)
    }
    assert told == {verdict.value: error.name for verdict, error in KAFKA_ERROR_OF.items()}
