"""Clients of all kinds through a tap that is killed, to a broker that is killed; Onceover on the captures."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.config.audit import ExpectationName
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.file_store import FileStore
from spark_jobs.operations.check_capture import CaptureCounts, Weight, check_capture
from spark_jobs.operations.copy import CopyCounts, CopyRequest, copy_directory
from tests.broker.admin import abort_hanging
from tests.broker.alone_trial import contents, records_of
from tests.broker.beliefs import differing_records
from tests.broker.clients.aio import AioClient
from tests.broker.clients.java import JavaClient, has_compiler
from tests.broker.clients.process import ClientProcess
from tests.broker.clients.workplace import TOPICS, Workplace
from tests.broker.judge import Broker
from tests.broker.life import (
    OVERRIDES,
    PARTITIONS,
    await_clients,
    await_decisions,
    find_hanging,
    start_clients,
)
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import Lake, log_lake, tapped_lake, today
from tests.broker.tapped import Ports, TapProcess, tapped_broker
from tests.broker.truth import create_topics, read_truth, wait_for_leaders
from tests.broker.wire import Connection

SEGMENT_BYTES = 65536
WORK_SECONDS = 3.0
"""Before, between and after the deaths of tap and broker."""
LIKE_THE_BROKER = ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS
Rows = list[dict[str, Any]]


@dataclass
class TappedLife:
    """A broker, a tap before it, and clients that only know the tap."""

    place: Path
    seed: int
    broker: Broker = field(init=False)
    tap: TapProcess = field(init=False)
    work: Workplace = field(init=False)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        ports = Ports()
        self.broker = tapped_broker((self.place / "broker").resolve(), ports, OVERRIDES)
        spool, log = self.place.resolve() / "spool", self.place / "tap.log"
        more = ("--rotate-seconds", "1", "--rotate-bytes", "64KiB", "--statistics-seconds", "2")
        self.tap = TapProcess(ports, str(self.captures.resolve()), spool, log, more)
        self.work = Workplace(address=f"127.0.0.1:{ports.clients}", seed=self.seed)

    @property
    def captures(self) -> Path:
        return self.place / "captures"

    def live(self, work_seconds: float) -> Rows:
        """Runs everything; returns what a read_committed consumer gets in the end."""
        self.broker.format()
        self.broker.start()
        create_topics(self.broker.address, TOPICS, SEGMENT_BYTES)
        self.tap.start()
        threads = start_clients(self._clients(), self.failures)
        with self._doomed_client():
            time.sleep(work_seconds)
            self.tap.kill()
            self.tap.start()
        time.sleep(work_seconds)
        self.copy("live")
        self.broker.kill()
        self.broker.start()
        wait_for_leaders(self.broker.address)
        time.sleep(work_seconds)
        self._kill_a_copy("copy")
        self.work.stopped.set()
        await_clients(threads, self.failures)
        return self._end()

    def _clients(self) -> list[Any]:
        work = self.work
        return [
            ClientProcess(work, "transactional", "rd-1"),
            ClientProcess(work, "undecided", "rd-2"),
            ClientProcess(work, "idempotent", "idem"),
            ClientProcess(work, "forgetful", "late"),
            AioClient(work, "aio"),
            *([JavaClient(work, "java")] if has_compiler() else []),
        ]

    @contextmanager
    def _doomed_client(self) -> Iterator[None]:
        """A client that is killed while it sends."""
        command = [sys.executable, "-m", "tests.broker.clients", "idempotent", "doomed"]
        address = [self.work.address, str(self.seed)]
        process = subprocess.Popen([*command, *address], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.communicate()

    def _kill_a_copy(self, name: str) -> None:
        """`onceover copy` under load, killed as soon as it has copied something."""
        to = self.place.resolve() / name
        command = [sys.executable, "-m", "spark_jobs", "copy", str(self.broker.data), str(to)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and not any(to.glob("*-*/*.log")):
                time.sleep(0.001)
            process.kill()

    def _end(self) -> Rows:
        connection = Connection(self.tap.ports.clients)
        await_decisions(connection)
        for tp, producer in find_hanging(connection, PARTITIONS):
            abort_hanging(connection, tp, producer)
        connection.close()
        truth = read_truth(self.broker.address, TOPICS)
        self.copy("copy")
        return truth

    def copy(self, name: str) -> CopyCounts:
        """`onceover copy` of the broker's log directory while it runs."""
        store = FileStore(str(self.place.resolve() / name))
        request = CopyRequest(log_directory=self.broker.data, store=store)
        return copy_directory(request, remark=print, watch=lambda _key, _size: None)


def tap_trial(place: Path, seed: int, *, work_seconds: float = WORK_SECONDS) -> dict[str, int]:
    """Everything in `place`; returns what was compared, raises `BrokenPromise` at the first difference."""
    life = TappedLife(place, seed)
    try:
        with lived():
            truth = life.live(work_seconds)
        code = life.tap.stop()
    finally:
        life.tap.kill()
        life.broker.kill()
    assert code == 0, f"the tap ended with {code}: {life.tap.log.read_text()}"
    _check_copies(place, truth)
    lake = tapped_lake(place / "lake-tap", life.captures)
    lake.run(today())
    extra = _compare(lake, truth, unanswered(life.captures))
    checked = CaptureCounts()
    found = check_capture(FileStore(str(life.captures.resolve())), "dt=%Y-%m-%d", checked)
    problems = (each for each in found if each.weight is Weight.PROBLEM)
    expect_none(problems, "captures follow their format")
    unlike = (row for row in lake.rows("expectation_results") if row["expectation"] == LIKE_THE_BROKER)
    expect_none((row for row in unlike if not row["success"]), "verdicts are the broker's answers")
    answered = Counter(line["error_code"] for _, line, _ in answers(life.captures))
    return {
        "records": len(truth),
        "records in tables": len(lake.records()),
        "batches": answered.total(),
        "markers": checked.markers,
        "without an answer": answered[None],
        "records that only the capture has": extra.total(),
    }


def _check_copies(place: Path, truth: Rows) -> None:
    """A copy under load is the beginning of what a consumer got, the last one all of it."""
    lake = log_lake(place / "lake-copy", place / "copy")
    lake.run(today())
    expect_none(differing_records(truth, lake.records()), "tables of the copy hold what a consumer got")
    live = log_lake(place / "lake-live", place / "live")
    resolved = live.step_rows(live.run(today()), Step.RESOLVE, "partitions.parquet")
    ends = {(row["topic"], row["partition"]): row["end_offset"] for row in resolved}
    early = [row for row in truth if row["offset"] < ends.get((row["topic"], row["partition"]), 0)]
    expect_none(differing_records(early, live.records()), "a copy under load holds the log so far")


def _compare(lake: Lake, truth: Rows, unknown: Counter[str]) -> Counter[str]:
    """Tables hold all that a consumer gets, each once; the rest is of batches without an answer."""
    found, wanted = contents(lake.records()), contents(truth)
    expect_none((wanted - found).elements(), "captures hold all that a consumer gets")
    expect_none((found - wanted - unknown).elements(), "captures hold nothing else but unanswered batches")
    return found - wanted


def answers(captures: Path) -> Iterator[tuple[TopicPartition, dict[str, Any], bytes]]:
    """Every batch in the captures with its answer."""
    for path in sorted(captures.rglob("_*.answers.jsonl")):
        topic, _, partition = path.parent.name.rpartition("-")
        name = path.name.removeprefix("_").removesuffix(".answers.jsonl")
        files = {"batches": path.with_name(f"{name}.batches"), "refused": path.with_name(f"_{name}.refused")}
        data = {kind: file.read_bytes() for kind, file in files.items() if file.exists()}
        for line in map(json.loads, path.read_text().splitlines()):
            raw = data[line["object"]][line["position"] : line["position"] + line["size"]]
            yield TopicPartition(topic, int(partition)), line, raw


def unanswered(captures: Path) -> Counter[str]:
    """The records of captured batches that have no answer: the broker may have taken them or not."""
    return contents(
        record
        for partition, line, raw in answers(captures)
        if line["object"] == "batches" and line["error_code"] is None and line["acks"] is not None
        for record in records_of(partition, raw)
    )
