"""The same requests to a broker and, captured, to Onceover; then a fresh broker on the log that it wrote."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

from spark_jobs.flow import Step
from spark_jobs.run import RunOutcome
from tests.broker.adoption import adopt
from tests.broker.answers import differing_answers
from tests.broker.beliefs import ask_broker, differing_offsets, differing_producers, differing_records
from tests.broker.captures import Captured, captured, write_capture
from tests.broker.dump import DUMPED, complaints, dump
from tests.broker.judge import Broker
from tests.broker.lives import lived
from tests.broker.next_batches import expected_errors, send_next
from tests.broker.promises import expect_none
from tests.broker.recorder import record
from tests.broker.runs import Lake, capture_lake, today
from tests.broker.session import PARTITIONS, SEGMENT_BYTES, TOPICS, Recorder
from tests.broker.truth import read_truth
from tests.broker.wire import Connection
from tests.recordings.compare_recording import compare_recording
from tests.recordings.recording import read_recording

MODES = ("idem", "tv1", "tv2", "mixed")


def capture_trial(place: Path, seed: int, *, events: int = 400) -> dict[str, int]:
    """Everything in `place`; returns what was compared, raises `AssertionError` at the first difference."""
    random = Random(seed)
    recording = place / "recording"
    _record(recording, random.choice(MODES), seed, events)
    replayed = compare_recording(read_recording(recording))
    expect_none(replayed.differences, "the pure rules replay the recording")

    batches = list(captured(recording))
    lake = capture_lake(place / "runs", place / "capture")
    outcome = _execute_runs(lake, batches, random)
    expect_none(differing_answers(batches, lake.rows("batches")), "verdicts are the broker's answers")

    more = _adopt_and_go_on(place, lake, outcome, batches)
    write_capture(more, place / "capture", random, run=9)
    lake.run(today() + timedelta(days=1))
    after = differing_answers([*batches, *more], lake.rows("batches"))
    expect_none(after, "verdicts are the answers of the broker that continued with the log")
    return {"requests": replayed.requests, "batches": len(batches) + len(more)}


def _record(recording: Path, mode: str, seed: int, events: int) -> None:
    recording.mkdir(parents=True)
    recorder = Recorder(recording.resolve(), mode, seed)
    try:
        with lived():
            record(recorder, events, [])
    finally:
        recorder.broker.kill()


def _execute_runs(lake: Lake, batches: Sequence[Captured], random: Random) -> RunOutcome:
    """Two runs, the capture cut somewhere between them."""
    cut, root = random.randrange(len(batches)), lake.settings.sources[0].root
    write_capture(batches[:cut], Path(root), random, run=1)
    lake.run(today() - timedelta(days=1))
    write_capture(batches[cut:], Path(root), random, run=2)
    return lake.run(today())


def _adopt_and_go_on(place: Path, lake: Lake, outcome: RunOutcome, batches: list[Captured]) -> list[Captured]:
    """A fresh broker on the accepted log: it says what Onceover says, and knows what comes next."""
    lake.write_log(place / "log")
    files = sorted(path for path in (place / "log").rglob("*") if path.suffix in DUMPED)
    expect_none(complaints(dump(files, "--deep-iteration")), "kafka-dump-log has no complaint")
    broker = Broker((place / "adopted").resolve())
    try:
        adopt(broker, TOPICS, place / "log", SEGMENT_BYTES)
        connection = Connection(broker.port)
        truth = read_truth(broker.address, TOPICS)
        expect_none(differing_records(truth, lake.records()), "tables hold what a consumer gets")
        facts = ask_broker(connection, PARTITIONS)
        strangers = differing_producers(facts, lake.rows("producers"))
        expect_none(strangers, "a broker on our log knows our producers")
        resolved = lake.step_rows(outcome, Step.RESOLVE, "partitions.parquet")
        expect_none(differing_offsets(facts, resolved), "a broker on our log is where we do")
        more = list(send_next(connection, batches))
        wrong = (each for each in more if each.error != expected_errors(each))
        expect_none(wrong, "a broker on our log knows what comes next")
        connection.close()
        return more
    finally:
        broker.kill()
