"""`index` with a first attempt of its first round that writes when later rounds, or the step, are done."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from spark_jobs.lake.chain import read_chain
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.index import step as index
from spark_jobs.pipeline.stage.step import open_run
from tests.faults.delayed import ODD, attempts_beside, call_late_attempt, index_bins_late
from tests.in_process import InProcess
from tests.pipeline.index.objects import batch, plain_object
from tests.pipeline.runs import CAPTURE, Place, place_at

UNKNOWN_ATTRIBUTE = 1 << 8


def _odd_batch(number: int) -> bytes:
    """A batch longer than a range with an attribute that means nothing: it is read, but never guessed."""
    usual = batch(number, value=bytes(5000))
    header = replace(read_header(usual), attributes=UNKNOWN_ATTRIBUTE)
    return seal(header, usual[HEADER_SIZE:])


RANGES = "limits: {range_bytes: 4096}\n"
OTHER_RANGE = 6000
OBJECTS = {"orders-0/a": plain_object(1500), f"{ODD}-0/a": b"".join(map(_odd_batch, range(4)))}
"""Guesses in the first are right. In the other one nothing looks like a batch, so it has more rounds."""


def late_attempts(directory: Path, spark: Spark) -> dict[str, Any]:
    """What a late attempt changed of the files that `index` listed, then of those with another range."""
    place = place_at(directory / "index", CAPTURE + RANGES)
    for path, data in OBJECTS.items():
        place.arrive(f"dt=2024-05-01/{path}").write_bytes(data)
    attempts = attempts_beside(place.lake.url)
    attempts.mkdir()
    context = _context(place, spark)
    with patch.object(index, "index_bins", index_bins_late):
        first = index.run(context)
    before = _files(context)
    call_late_attempt(attempts, "same ranges")
    written, changed = sorted(_files(context) - before), _changed(context, first)
    context.folder.begin(Step.INDEX)
    limits = place.settings.limits.model_copy(update={"range_bytes": OTHER_RANGE})
    other = replace(context, settings=place.settings.model_copy(update={"limits": limits}), spark=InProcess())
    second = index.run(other)
    call_late_attempt(attempts, "other ranges")
    return {
        "written after its round": written,
        "changed": changed,
        "changed with other ranges": _changed(other, second),
    }


def _context(place: Place, spark: Spark) -> RunContext:
    chain = read_chain(place.lake)
    folder = open_run(place.settings, place.stage(1), lake=place.lake, chain=chain)
    return RunContext(settings=place.settings, folder=folder, chain=chain, spark=spark)


def _files(context: RunContext) -> set[str]:
    prefix = context.folder.key(Step.INDEX) + "/"
    return {found.key.removeprefix(prefix) for found in context.lake.list(prefix)}


def _changed(context: RunContext, result: StepResult) -> list[str]:
    """Files of `result` whose bytes are others than it says."""
    return [
        output.path
        for output in result.outputs
        if hashlib.sha256(context.lake.read(context.folder.key(Step.INDEX, output.path))).hexdigest()
        != output.digest
    ]
