"""Real clients at a broker that is killed; Onceover fetches its log meanwhile, and is killed, too."""

import multiprocessing
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

from spark_jobs.flow import Step
from spark_jobs.kafka.errors import OnceoverError
from tests.broker.agreement import expect_agreement
from tests.broker.beliefs import BrokerFacts, differing_records
from tests.broker.clients.workplace import TOPICS
from tests.broker.cluster_source import cluster_lake, fetched, stored
from tests.broker.life import OFFSETS_PARTITIONS, PARTITIONS, SEGMENT_BYTES, Life, await_clients
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import Lake, today
from tests.broker.truth import create_topics, wait_for_leaders
from tests.pipeline.materialise.truth import in_order

WORK_SECONDS = 5.0
KILL_SECONDS = 4.0
ATTEMPTS = 10
"""A stage may fail as long as the broker is not there: then it is tried again."""


def cluster_trial(place: Path, seed: int, *, work_seconds: float = WORK_SECONDS) -> dict[str, int]:
    """Everything in `place`; raises `BrokenPromise` at the first difference."""
    life = FetchedLife(place, seed, work_seconds)
    try:
        with lived():
            facts = life.live()
        life.broker.start()
        wait_for_leaders(life.broker.address)
        life.lake.run(today())
        once = cluster_lake(place / "lake-once", life.broker.address, TOPICS)
        outcome = once.run(today())
    finally:
        life.broker.kill()
    truth = in_order(life.truth())
    for lake in (life.lake, once):
        expect_none(_differing_logs(life, lake), "segments are the broker's bytes")
        expect_none(differing_records(truth, lake.records()), "tables hold what a consumer got")
    expect_agreement(once, outcome, facts, truth, name="cluster", groups=life.groups)
    return {"records": len(truth), "killed fetches": life.kills}


class FetchedLife(Life):
    """A broker's life in which a run is made while clients work, and one while the broker is killed."""

    kills = 0

    @property
    def lake(self) -> Lake:
        return cluster_lake(self.place / "lake-cluster", self.broker.address, TOPICS)

    def live(self) -> BrokerFacts:
        """Runs everything; returns the broker's replies once all clients have stopped."""
        random = Random(self.seed)
        self.broker.format()
        self.broker.start()
        create_topics(self.broker.address, TOPICS, SEGMENT_BYTES)
        threads = self._start_clients()
        time.sleep(self.work_seconds)
        self._stage_and_kill(today() - timedelta(days=2), random)
        self.lake.run(today() - timedelta(days=2))
        self._restart(kill=random.random() < 0.75)
        self._stage_and_kill(today() - timedelta(days=1), random)
        self.work.stopped.set()
        await_clients(threads, self.failures)
        self.lake.run(today() - timedelta(days=1))
        return self._end_quietly(has_operator=random.random() < 0.5)

    def _stage_and_kill(self, day: date, random: Random) -> None:
        """A process that stages, and is killed while it does."""
        process = multiprocessing.get_context("spawn").Process(target=stage, args=(self.lake, day))
        process.start()
        process.join(KILL_SECONDS + random.random() * KILL_SECONDS)
        if process.is_alive():
            process.kill()
            self.kills += 1
        process.join()


def stage(lake: Lake, day: date) -> None:
    """Stages the day; a broker that is away is no error here."""
    for _ in range(ATTEMPTS):
        try:
            lake.run(day, until=Step.STAGE)
        except OnceoverError as error:
            if not error.transient:
                raise
        else:
            return


def _differing_logs(life: FetchedLife, lake: Lake) -> Iterator[str]:
    """Partitions of which the fetched segments are not what the stopped broker has."""
    for topic, number in (*PARTITIONS, *OFFSETS_PARTITIONS):
        name = f"{topic}-{number}"
        ours, theirs = fetched(lake, name), stored(life.copy("data"), name)
        if ours != theirs and not (topic.startswith("__") and ours.startswith(theirs)):
            yield f"{name}: {len(ours)} bytes fetched, {len(theirs)} bytes stored"
