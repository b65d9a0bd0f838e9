"""Dashboard and alert rules use only metrics that runs write, by names that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster.topology import COLLECTOR_PORT
from spark_jobs.config.audit import Severity
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.pipeline.report.metrics import METRICS, Metric
from spark_jobs.tables.materialise import QuarantineKind

INFRA = Path(__file__).parents[2] / "infra"
RULES = INFRA / "prometheus" / "rules.yml"
DASHBOARD = INFRA / "grafana" / "dashboards" / "onceover.json"
KNOWN = {metric.name: metric for metric in METRICS}
VALUES: dict[str, frozenset[str]] = {
    "verdict": frozenset(Verdict),
    "outcome": frozenset(Outcome),
    "severity": frozenset(Severity),
    "kind": frozenset(QuarantineKind),
}
USE = re.compile(r"\b(onceover_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"')
EXCLUDED_VERDICTS = re.compile(r'verdict!~\\?"([^"]+)"')
GROUPING = re.compile(r"(?:by|ignoring) \(([^)]*)\)")


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def used(expression: str) -> Iterator[tuple[Metric, str]]:
    """Every metric of an expression with what it is narrowed to."""
    for name, matchers in USE.findall(expression):
        assert name in KNOWN, f"{name}: no run writes this"
        yield KNOWN[name], matchers


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_uses_metrics_labels_and_values_that_exist(expression: str) -> None:
    uses = list(used(expression))
    assert uses
    for metric, matchers in uses:
        for label, values in MATCHER.findall(matchers):
            assert label in metric.labels
            assert set(values.split("|")) <= VALUES[label]
    for labels in GROUPING.findall(expression):
        assert set(labels.split(", ")) <= {label for metric, _ in uses for label in metric.labels}


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_metrics_of_two_lakes_are_never_compared_with_each_other(expression: str) -> None:
    """With `on (topic)` a topic in two lakes is a match of many with many, and the rule fails for all."""
    assert not re.search(r"\bon ?\(", expression)


@pytest.mark.parametrize("file", [RULES, DASHBOARD, INFRA.parent / "docs" / "metrics.md"])
def test_refused_batches_are_all_but_those_of_the_other_groups(file: Path) -> None:
    others = {verdict.value for verdict in Verdict if not verdict.is_refused}
    [excluded] = EXCLUDED_VERDICTS.findall(file.read_text())
    assert set(re.findall(r"\w+", excluded)) == others


def test_every_metric_is_on_the_dashboard_or_in_a_rule() -> None:
    shown = {metric for expression in expressions() for metric, _ in used(expression)}
    assert {metric.name for metric in set(METRICS) - shown} <= {
        "onceover_run_end_timestamp_seconds",
        "onceover_last_success_timestamp_seconds",
    }


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_how_bad_it_is_and_what_to_do_with_labels_that_are_there(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in set(Severity)
    reported = " ".join(rule["annotations"].values())
    assert rule["annotations"].keys() == {"summary", "description"}
    known = {label for metric, _ in used(rule["expr"]) for label in metric.labels}
    assert set(re.findall(r"\$labels\.(\w+)", reported)) <= known


def test_panels_have_a_meaning_a_place_of_their_own_and_legends_of_existing_labels() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in panels()})
    for panel in panels():
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            known = {label for metric, _ in used(target["expr"]) for label in metric.labels}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known


def test_prometheus_asks_the_collector_of_the_compose_file() -> None:
    config = yaml.safe_load((INFRA / "prometheus" / "prometheus.yml").read_text())
    [scraped] = config["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"node-exporter:{COLLECTOR_PORT}"]}]
    assert config["rule_files"] == [RULES.name]


@pytest.mark.parametrize(
    "question",
    [
        ("check", "config", INFRA / "prometheus" / "prometheus.yml"),
        ("test", "rules", Path(__file__).with_name("rules_test.yml")),
    ],
    ids=["they are valid", "they fire for the right runs"],
)
def test_promtool_says_of_configuration_and_rules(question: tuple[str | Path, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus); the other tests here still hold")
    done = subprocess.run([promtool, *question], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
