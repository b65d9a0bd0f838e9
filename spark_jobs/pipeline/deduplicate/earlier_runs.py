"""Files of earlier runs, for an index that does not exist yet, and how far an interrupted build came."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.config.dedup import IdRule
from spark_jobs.lake.id_index import IdIndex, day_number, indexes_of, rows_of
from spark_jobs.lake.layout import id_build_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.table_listing import final_listing
from spark_jobs.pipeline.context import RunContext, pack
from spark_jobs.pipeline.deduplicate.job import RecordFile

CHUNK_ROWS = 1 << 25
"""Records of history that are read before the index is stored, so that an interrupted build continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of one run in the tables of a rule's topics."""

    run_id: str
    day: int
    files: tuple[RecordFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def files_of(folder: RunFolder, rule: IdRule, context: RunContext) -> RunFiles:
    """The files of a run, also of logs that have nothing new in later runs."""
    day = day_number(folder.inputs.day)
    listed = final_listing(folder)
    rules = context.settings.id_rules(sorted({entry.topic for _, entry in listed if entry.topic is not None}))
    logs = {log for found, logs in rules if found == rule for log in logs}
    files = tuple(
        RecordFile(
            topic=entry.topic,
            key=folder.key(step, entry.file),
            path=entry.file,
            rows=entry.rows,
            bytes=entry.bytes,
            day=day,
        )
        for step, entry in listed
        if entry.topic in logs and entry.topic is not None and entry.file is not None
    )
    return RunFiles(run_id=folder.run_id, day=day, files=files)


def history_of(context: RunContext, rule: IdRule) -> list[RunFiles]:
    """The earlier runs that count, by date."""
    day = context.folder.inputs.day
    first_day = rule.first_day(day_number(day))
    return [
        files_of(RunFolder(context.lake, read_inputs(context.lake, entry.run_id)), rule, context)
        for entry in context.chain.before(day)
        if day_number(entry.day) >= first_day
    ]


def chunks_of(runs: Sequence[RunFiles], *, most: int) -> Iterator[tuple[RunFiles, ...]]:
    """Neighbouring runs together, about `most` records at a time."""
    return pack(runs, cost=lambda run: run.rows, most=most)


@dataclass(frozen=True, slots=True)
class Builds:
    """Where a build of the rule's index stores how far it came; a build of other runs has another name."""

    lake: ObjectStore
    rule: IdRule
    runs: Sequence[RunFiles]

    def key(self, count: int) -> str:
        """Names the index after the first `count` runs."""
        return id_build_key(digest_of([self.rule.digest, [run.run_id for run in self.runs[:count]]]))

    def put(self, count: int, index: IdIndex, duplicates: int) -> None:
        """Stores the index after the first `count` runs, and how many of their records repeat an id."""
        rows = [{**row, **{name: row[name].isoformat() for name in DATES}} for row in rows_of([index])]
        self.lake.put(self.key(count), canonical_json({"duplicates": duplicates, "index": rows}))

    def newest(self) -> tuple[int, IdIndex, int]:
        """The most runs with a stored index, the index, and how many of their records repeat an id."""
        for count in range(len(self.runs), 0, -1):
            if self.lake.stat(self.key(count)) is not None:
                stored: dict[str, Any] = json.loads(self.lake.read(self.key(count)))
                rows = stored["index"]
                dated = [{**row, **{name: date.fromisoformat(row[name]) for name in DATES}} for row in rows]
                return count, indexes_of(dated)[self.rule.digest], stored["duplicates"]
        return 0, IdIndex(rule=self.rule.digest), 0

    def stored(self) -> Iterator[str]:
        """Keys of what is stored, which is of no use when the run has the index."""
        keys = map(self.key, range(1, len(self.runs) + 1))
        yield from (key for key in keys if self.lake.stat(key) is not None)


DATES = ("first_date", "last_date")
