"""Clients of all kinds through a tap that is killed, to a broker that is killed; Onceover on the captures."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
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
from tests.broker.clients.process import ClientFailed, ClientProcess
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
from tests.e2e.tables import Records

SEGMENT_BYTES = 65536
WORK_SECONDS = 3.0
"""Before, between and after the deaths of tap and broker."""
LIKE_THE_BROKER = ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS
Rows = list[dict[str, Any]]


def _await_line(client: "subprocess.Popen[bytes]") -> None:
    """Until the client has noted its first transaction, which is open then."""
    assert client.stdout is not None
    if not client.stdout.readline():
        raise ClientFailed("a client ended before it was killed")


@dataclass
class TappedLife:
    """A broker, a tap before it, and clients that only know the tap."""

    place: Path
    seed: int
    broker: Broker = field(init=False)
    tap: TapProcess = field(init=False)
    work: Workplace = field(init=False)
    failures: list[BaseException] = field(default_factory=list)
    day: date = field(default_factory=today)
    early: Records = field(default_factory=list)
    """The records of the run that was made while clients worked."""

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

    @property
    def lake(self) -> Lake:
        return tapped_lake(self.place / "lake-tap", self.captures)

    def live(self, work_seconds: float) -> Rows:
        """Runs everything; returns what a read_committed consumer gets in the end."""
        self.broker.format()
        self.broker.start()
        create_topics(self.broker.address, TOPICS, SEGMENT_BYTES)
        self.tap.start()
        threads = start_clients(self._clients(), self.failures)
        with self._doomed_client("idempotent"):
            with self._doomed_client("abandoned") as client:
                time.sleep(work_seconds)
                _await_line(client)
            self.tap.kill()
            self.tap.start()
        time.sleep(work_seconds)
        self.lake.run(self.day)
        self.early = self.lake.records()
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
    def _doomed_client(self, kind: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A client that is killed in the end, while it sends or inside a transaction."""
        command = [sys.executable, "-m", "tests.broker.clients", kind, f"doomed-{kind}"]
        address = [self.work.address, str(self.seed)]
        out = subprocess.PIPE if kind == "abandoned" else subprocess.DEVNULL  # a full pipe would block it
        process = subprocess.Popen([*command, *address], stdin=subprocess.PIPE, stdout=out)
        try:
            yield process
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
    lake, unknown = life.lake, unanswered(life.captures)
    lake.run(life.day + timedelta(days=1))
    early = contents(life.early)
    expect_none((early - contents(truth) - unknown).elements(), "a run under load holds what consumers get")
    expect_none((early - contents(lake.records())).elements(), "the next run keeps it")
    once = tapped_lake(place / "lake-tap-once", life.captures)
    once.run(life.day + timedelta(days=1))
    for each in (lake, once):
        extra = _compare(each, truth, unknown)
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
        "records of the run under load": len(life.early),
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
