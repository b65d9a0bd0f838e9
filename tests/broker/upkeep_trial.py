"""Onceover on the logs of a broker that compacts, deletes, expires and is upgraded while clients work."""

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.broker import invariants
from tests.broker.admin import ActiveProducer
from tests.broker.agreement import expect_agreement
from tests.broker.beliefs import BrokerFacts, differing_records
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import log_lake, today
from tests.broker.upkeep import Upkeep
from tests.broker.upkeep_clients import COMPACTED
from tests.pipeline.materialise.truth import in_order

Rows = list[dict[str, Any]]


def upkeep_trial(place: Path, seed: int) -> dict[str, int]:
    """Everything in `place`; returns what was compared, raises `BrokenPromise` at the first difference."""
    life = Upkeep(place, seed)
    try:
        with lived():
            facts = life.live()
    finally:
        life.broker.kill()
    truth, early = _read(place / "truth.jsonl"), _read(place / "early-truth" / "truth.jsonl")
    for name in ("quiet", "data"):
        _check_copy(life, name, facts, truth)
    _check_runs(life, early, truth)
    return {
        "records": len(truth),
        "records before the upkeep": len(early),
        "group offsets": len(life.groups),
    }


def _read(path: Path) -> Rows:
    return in_order(json.loads(line) for line in path.read_text().splitlines())


def _check_copy(life: Upkeep, name: str, facts: BrokerFacts, truth: Rows) -> None:
    lake = log_lake(life.place / f"lake-{name}", life.place / name)
    outcome = lake.run(today())
    facts = _as_cleaned(facts, lake.rows("producers"))
    expect_agreement(lake, outcome, facts, truth, name=name, groups=life.groups)
    expect_none(invariants.misordered(lake.full_records()), f"offsets and sequences of {name} in order")


def _as_cleaned(facts: BrokerFacts, rows: Rows) -> BrokerFacts:
    """The broker's replies, with the earlier times of producers that a cleaned log shows.

    A batch that loses its newest record is written anew, with the time of the newest one that is left.
    """
    times = {
        (row["topic"], row["partition"], row["producer_id"]): row["last_timestamp"]
        for row in rows
        if row["topic"] == COMPACTED
    }
    producers = {
        tp: {pid: _not_after(reported, times.get((*tp, pid))) for pid, reported in active.items()}
        for tp, active in facts.producers.items()
    }
    return replace(facts, producers=producers)


def _not_after(reported: ActiveProducer, timestamp: int | None) -> ActiveProducer:
    return (
        reported
        if timestamp is None
        else replace(reported, last_timestamp=min(reported.last_timestamp, timestamp))
    )


def _check_runs(life: Upkeep, early: Rows, truth: Rows) -> None:
    """A run before the upkeep and one after it: what was there before stays, and what is new is added."""
    source = life.place / "runs-source"
    lake = log_lake(life.place / "lake-runs", source)
    for days_ago, name in ((1, "early"), (0, "data")):
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(life.place / name, source)
        lake.run(today() - timedelta(days=days_ago))
    before = {(row["topic"], row["partition"], row["offset"]): row for row in early}
    both = before | {(row["topic"], row["partition"], row["offset"]): row for row in truth}
    expect_none(differing_records(in_order(both.values()), lake.records()), "two runs hold what was read")
