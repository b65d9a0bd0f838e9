"""Newer clients' requests to a broker and, captured without markers, to Onceover with the coordinator's log.

Hand-made clients do what no real one can: they continue with the epoch of a transaction that they have ended,
or mix in plain batches. A capture does not show which of these batches the broker rejected.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.broker.captures import Captured, captured, write_capture
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.recorder import record
from tests.broker.runs import Lake, alone_lake, today
from tests.broker.session import Recorder
from tests.pipeline.materialise.truth import as_truth, truth_of

STAMPED = "lat"
REFUSED_BY_AN_END = {"INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"}


def alone_trial(place: Path, seed: int, *, events: int = 400) -> dict[str, int]:
    """Everything in `place`; returns what was compared, raises `AssertionError` at the first difference."""
    recording = place / "recording"
    recording.mkdir(parents=True)
    recorder = Recorder(recording.resolve(), "tv2", seed)
    try:
        with lived():
            record(recorder, events, [])
    finally:
        recorder.broker.kill()
    batches = [each for each in captured(recording) if each.error is not None]
    write_capture(batches, place / "capture", Random(seed))
    lake = alone_lake(place / "runs", place / "capture", recording / "data")
    # By yesterday's end none of the transactions that are still open has timed out.
    lake.run(today() - timedelta(days=1))
    _compare(lake, recording, batches)
    return {"batches": len(batches)}


def _compare(lake: Lake, recording: Path, batches: list[Captured]) -> None:
    found, truth = contents(lake.records()), contents(truth_of(str(recording.resolve())))
    refused = contents(
        sent
        for each in batches
        if each.error in REFUSED_BY_AN_END
        for sent in records_of(each.partition, each.records)
    )
    expect_none((truth - found).elements(), "tables hold all that a consumer gets")
    expect_none((found - truth - refused).elements(), "tables hold nothing else that was committed")


def records_of(partition: TopicPartition, batch: bytes) -> Iterable[dict[str, Any]]:
    """The records of a captured batch as a consumer would get them."""
    for sent in read_records(batch):
        headers = [{"key": each.key, "value": each.value} for each in sent.headers]
        plain = {**asdict(sent), "partition": partition.partition, "headers": headers}
        yield as_truth(partition.topic, {**plain, "timestamp_type": sent.timestamp_type.value})


def contents(records: Iterable[dict[str, Any]]) -> Counter[str]:
    """Records without what a broker decides: offsets, and the time of a topic that it stamps."""
    given = {STAMPED: {"offset", "timestamp", "timestamp_type"}}
    return Counter(
        str({name: value for name, value in each.items() if name not in given.get(each["topic"], {"offset"})})
        for each in records
    )
