"""The documentation names every metric with its labels."""

import re
from pathlib import Path

from spark_jobs.metrics.catalogue import METRICS

DOCS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| (`onceover_[^|]*) \| ([^|]*)\|", re.MULTILINE)


def test_every_metric_is_told_with_its_labels() -> None:
    told = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for names, labels in ROW.findall(DOCS)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == {metric.name: metric.labels for metric in METRICS}
