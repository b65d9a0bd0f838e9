"""Real clients at a broker that is killed in the middle; Onceover on every copy of its log directory."""

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.run import RunOutcome
from tests.broker import invariants
from tests.broker.agreement import expect_agreement
from tests.broker.beliefs import BrokerFacts, differing_records
from tests.broker.clients.journal import Entry, Sent
from tests.broker.copies import cut_at_snapshots, cut_behind
from tests.broker.dump import write_dumps
from tests.broker.life import Life, Place, place_of
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import Lake, log_lake, today
from tests.pipeline.materialise.truth import in_order
from tests.recordings.compare_recording import compare_recording
from tests.recordings.recording import read_recording

WORK_SECONDS = 6.0
Rows = list[dict[str, Any]]


def workload_trial(place: Path, seed: int, *, work_seconds: float = WORK_SECONDS) -> dict[str, int]:
    """Everything in `place`; returns what was compared, raises `BrokenPromise` at the first difference."""
    life = Life(place, seed, work_seconds)
    try:
        with lived():
            facts = life.live()
    finally:
        life.broker.kill()
    truth = in_order(life.truth())
    journal, broken = life.kept(facts)
    whole = _check_copies(life, facts, truth)
    published = whole.full_records()
    _check_promises(published, journal, life.hidden(facts))
    if not broken:
        expect_none(invariants.miscopied(published), "read-process-write once")
    _check_runs(life, truth, published, broken)
    _check_early_copies(life, truth, journal, broken)
    _check_missed_runs(life, facts, truth, broken)
    _check_snapshots(life, published, Random(seed))
    _check_dumps(life)
    batches = len(whole.rows("batches"))
    return {
        "records": len(truth),
        "transactions": len(journal),
        "batches": batches,
        "group offsets": len(life.groups),
        "hanging at the broker": life.hanging,
        "records broken by the broker": len(broken),
    }


def _check_copies(life: Life, facts: BrokerFacts, truth: Rows) -> Lake:
    """The copies of the quiet broker, alive and stopped, give what its consumer and its admin client saw."""
    for name in ("quiet", "data"):
        lake = log_lake(life.copy(f"lake-{name}"), life.copy(name))
        outcome = lake.run(today())
        expect_agreement(lake, outcome, facts, truth, name=name, groups=life.groups)
        expect_none(
            invariants.unaccounted_batches(lake.rows("batches"), _indexed(outcome)), "conservation of batches"
        )
    again = log_lake(life.copy("lake-again"), life.copy("data"))
    differing = invariants.differing_outputs(lake.outputs(outcome), again.outputs(again.run(today())))
    expect_none(differing, "the same bytes when run again")
    return lake


def _indexed(outcome: RunOutcome) -> dict[str, int]:
    return next(done.counts for done in outcome.done if done.step is Step.INDEX)


def _check_promises(published: Rows, journal: Sequence[Entry], hidden: set[Sent]) -> None:
    """The outcomes that clients were given against the published records."""
    expect_none(invariants.aborted_reads(published, journal), "no aborted read")
    expect_none(invariants.lost_writes(published, journal, hidden), "no lost write")
    expect_none(invariants.duplicates(published), "no duplicate")
    visible = [entry for entry in journal if hidden.isdisjoint(entry.values)]
    expect_none(invariants.torn_transactions(published, visible), "no torn transaction")
    expect_none(invariants.misordered(published), "offsets and sequences in order")


def _check_runs(life: Life, truth: Rows, published: Rows, broken: set[Place]) -> None:
    """Run by run, as backups found the log, gives the same as one run at the end.

    Only records that a broker let go after it had said committed may be there before.
    """
    source = life.place / "runs-source"
    lake = log_lake(life.copy("lake-runs"), source)
    for days_ago, name in ((2, "live"), (1, "killed"), (0, "data")):
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(life.copy(name), source)
        lake.run(today() - timedelta(days=days_ago))
    records = _without(lake.records(), broken)
    expect_none(differing_records(_without(truth, broken), records), "three runs hold what a consumer got")
    differing = invariants.differing_tables(
        _without(published, broken), _without(lake.full_records(), broken)
    )
    expect_none(differing, "the same over three runs")


def _without(rows: Rows, broken: set[Place]) -> Rows:
    return [row for row in rows if place_of(row) not in broken]


def _check_early_copies(life: Life, truth: Rows, journal: Sequence[Entry], broken: set[Place]) -> None:
    """A copy from the middle shows what a consumer could read by then, and whole transactions if asked.

    They are whole if the copy is of one moment, as after a kill: one that was made file by file while the
    broker went on may have some partitions of a transaction only.
    """
    for name in ("live", "killed"):
        lake = log_lake(life.copy(f"lake-{name}"), life.copy(name))
        resolved = lake.step_rows(lake.run(today()), Step.RESOLVE, "partitions.parquet")
        ends = {(row["topic"], row["partition"]): row["end_offset"] for row in resolved}
        early = [row for row in truth if row["offset"] < ends.get((row["topic"], row["partition"]), 0)]
        records = _without(lake.records(), broken)
        expect_none(
            differing_records(_without(early, broken), records), f"tables of {name} hold the log so far"
        )
        expect_none(invariants.aborted_reads(lake.full_records(), journal), f"no aborted read in {name}")
    whole = log_lake(life.copy("lake-whole"), life.copy("killed"), publish="whole_transactions")
    whole.run(today())
    torn = invariants.torn_transactions(whole.full_records(), journal)
    expect_none(torn, "no torn transaction at the kill where transactions are asked for whole")


def _check_missed_runs(life: Life, facts: BrokerFacts, truth: Rows, broken: set[Place]) -> None:
    """Where retention is faster than runs, what is gone is missing, and nothing else.

    A transaction that was open before the gap may have been committed in it: then its records come late.
    Where one hangs at the broker and spans the gap, the coordinator's log decides it, and tables reach
    further.
    """
    source = life.place / "missed-source"
    lake = log_lake(life.copy("lake-missed"), source)
    shutil.copytree(life.copy("live"), source)
    resolved = lake.step_rows(lake.run(today() - timedelta(days=1)), Step.RESOLVE, "partitions.parquet")
    ends = {_name(row): row["log_end_offset"] for row in resolved if not row["topic"].startswith("__")}
    shutil.rmtree(source)
    starts = cut_behind(life.copy("data"), source, ends)
    lake.run(today())
    records = [row for row in _without(lake.records(), broken) if row["offset"] < facts.stable[_tp(row)]]
    expected = _without(truth, broken)
    behind = [row for row in expected if row["offset"] >= starts[_name(row)]]
    found = [row for row in records if row["offset"] >= starts[_name(row)]]
    expect_none(differing_records(behind, found), f"what begins behind a gap at {starts}")
    places = {place_of(row): row for row in expected}
    expect_none((row for row in records if places.get(place_of(row)) != row), "nothing else before the gap")


def _tp(row: dict[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _check_snapshots(life: Life, published: Rows, random: Random) -> None:
    """A log that begins at one of its snapshots gives the records behind it, and the same producers."""
    starts = cut_at_snapshots(life.copy("data"), life.copy("cut"), random)
    lake = log_lake(life.copy("lake-cut"), life.copy("cut"))
    lake.run(today())
    behind = [row for row in published if row["offset"] >= starts[_name(row)]]
    expect_none(invariants.differing_tables(behind, lake.full_records()), f"from snapshots at {starts}")


def _check_dumps(life: Life) -> None:
    """The logs, snapshots and indexes as kafka-dump-log prints them."""
    write_dumps(life.copy("data"), life.place / "dump")
    compared = compare_recording(read_recording(life.place))
    expect_none(compared.differences, "the pure rules read the log as kafka-dump-log and consumers do")
