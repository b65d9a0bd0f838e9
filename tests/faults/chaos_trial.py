"""Runs on faulty copies of a busy broker's log, and the rules that they must keep.

Nothing is published that a consumer did not get, nothing is left out before what is published, no command is
given against a live transaction, and once a copy is whole everything is there, once.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from pyiceberg.exceptions import NoSuchTableError

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.errors import TopicRecreated
from spark_jobs.operations.rollback import roll_back
from spark_jobs.run import RunOutcome
from tests.broker.beliefs import differing_records
from tests.broker.promises import expect_none
from tests.broker.runs import Lake, log_lake, today
from tests.broker.watched_life import RECREATED, Watched
from tests.faults.chaos_copies import compose_copy, offsets_in

Rows = list[dict[str, Any]]
WINDOWS = ((0, 5), (3, 8), (6, 10))
"""Of which moments each faulty copy may be; they overlap, so that a later copy may be older."""


@dataclass
class ChaosTrial:
    """One lake, faulty copies one after the other, then a whole one; `story` describes them.

    `taken` are the offsets that copies of finished runs held, by partition.
    """

    watched: Watched
    place: Path
    seed: int
    story: list[str] = field(default_factory=list)
    taken: dict[tuple[str, int], set[int]] = field(default_factory=dict)

    def run(self) -> dict[str, int]:
        """Returns what was seen; raises `BrokenPromise` with the story at the first rule that is broken."""
        random, source = Random(self.seed), self.place / "source"
        lake = log_lake(self.place, source, more=f"topics: {{{RECREATED}: {{on_recreate: new_table}}}}\n")
        stopped = 0
        final: list[str] = []
        for number, (first, last) in enumerate(WINDOWS):
            copy = compose_copy(self.watched.moments[first:last], source, random)
            self.story.append(f"copy {number + 1}: {copy.description}")
            try:
                outcome = lake.run(today() + timedelta(days=number - len(WINDOWS)))
            except OnceoverError as error:
                stopped += 1
                self.story.append(f"run {number + 1} stopped: {error}")
            else:
                final.append(outcome.run_id)
                self._expect(self._silent_holes(source, outcome), "what is missing is held and listed")
            self._check(lake)
        shutil.rmtree(source)
        shutil.copytree(self.watched.moments[-1], source)
        self.story.append("copy after a clean stop, whole")
        self._run_whole(lake, final)
        self._check(lake)
        published = _usual(lake.records())
        self._expect(
            differing_records(_usual(self.watched.truth), published), "a whole copy brings everything, once"
        )
        again = {row["value"] for row in lake.records() if row["topic"].startswith(RECREATED)}
        newest = (row for row in self.watched.truth if row["topic"] == RECREATED)
        self._expect(
            (f"lost: {row}" for row in newest if row["value"] not in again), "the new log is there as well"
        )
        return {"records": len(published), "runs": len(WINDOWS) + 1, "runs that stopped": stopped}

    def _run_whole(self, lake: Lake, final: list[str]) -> None:
        """The run of the whole copy; runs that read segments under a stale topic id are rolled back first.

        That is what the message of `TopicRecreated` says to do: a copy that pairs segments of the new log
        with the `partition.metadata` of the deleted one cannot be recognised when it is read.
        """
        while True:
            try:
                lake.run(today())
            except TopicRecreated as error:
                self.story.append(f"the whole copy stopped, {final[-1:]} is rolled back: {error}")
                if not final:
                    raise
                roll_back(lake.settings, final.pop())
            else:
                return

    def _silent_holes(self, source: Path, outcome: RunOutcome) -> Iterator[str]:
        """Partitions with offsets that no copy had so far, in a run that does not say so.

        A run that stopped has taken nothing: what it was given does not count.
        """
        for partition, offsets in offsets_in(source).items():
            self.taken.setdefault(partition, set()).update(offsets)
        for (topic, number), offsets in self.taken.items():
            missing = set(range(max(offsets, default=0))) - offsets
            if missing and topic != RECREATED and not outcome.is_held:
                yield f"{topic}-{number}: {len(missing)} offsets from {min(missing)} on are missing"

    def _check(self, lake: Lake) -> None:
        self._expect(_not_a_prefix(_usual(self.watched.truth), _usual(_records(lake))), "published in order")
        self._expect(_mixed(self.watched, _records(lake)), "a recreated topic is another log")
        self._expect(_commands(_own(lake, "transactions")), "no command against a live transaction")

    def _expect(self, broken: Iterator[str], promise: str) -> None:
        expect_none(broken, f"{promise} (seed {self.seed}):\n  " + "\n  ".join(self.story) + "\n ")


def _usual(rows: Rows) -> Rows:
    """Those of topics that were not deleted meanwhile."""
    return [row for row in rows if not row["topic"].startswith(RECREATED)]


def _mixed(watched: Watched, published: Rows) -> Iterator[str]:
    """Each table of the recreated topic holds the beginning of one of its two logs, and nothing else."""
    after = [row for row in watched.truth if row["topic"] == RECREATED]
    logs = [_values(watched.before), _values(after)]
    for (topic, _), rows in _by_partition(published).items():
        values = _values(rows)
        if topic.startswith(RECREATED) and not any(log[: len(values)] == values for log in logs):
            yield f"{topic}: {len(values)} records that are the beginning of neither log"


def _values(rows: Rows) -> list[tuple[int, str]]:
    return [(row["offset"], row["value"]) for row in rows]


def _records(lake: Lake) -> Rows:
    try:
        return lake.records()
    except NoSuchTableError:
        return []


def _own(lake: Lake, table: str) -> Rows:
    try:
        return lake.rows(table)
    except NoSuchTableError:
        return []


def _not_a_prefix(truth: Rows, published: Rows) -> Iterator[str]:
    """Each partition holds what a consumer got, from the first record on, without one left out."""
    expected, found = _by_partition(truth), _by_partition(published)
    for partition, rows in found.items():
        for theirs, ours in zip(expected[partition], rows, strict=False):
            if theirs != ours:
                yield f"{partition}: consumer {theirs}, Onceover {ours}"
                break
        else:
            if len(rows) > len(expected[partition]):
                yield f"{partition}: {len(rows) - len(expected[partition])} records that no consumer got"


def _by_partition(rows: Rows) -> dict[tuple[str, int], Rows]:
    found: dict[tuple[str, int], Rows] = defaultdict(list)
    for row in rows:
        found[row["topic"], row["partition"]].append(row)
    return found


def _commands(transactions: Rows) -> Iterator[str]:
    """Every transaction of this broker was live or decided: none may be called hanging."""
    for row in transactions:
        if row["abort_commands"]:
            yield f"{row['transactional_id']}: {row['abort_commands']}"
