"""The step finds what a loop over all records finds, whatever the buckets, parts, files and run dates."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake import id_index, parquet_file
from spark_jobs.lake.chain import Chain, ChainEntry, EntryKind
from spark_jobs.lake.iceberg.topic_tables import topic_contract
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import EMPTY_STATE, RunFolder, RunInputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.lake.table_listing import entries_of, final_listing, put_listing, read_listing
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.deduplicate import step
from spark_jobs.tables.materialise import as_written
from tests.in_process import InProcess

FIRST = date(2026, 1, 1)
CONFIG = """
lake: lake
sources: [{{name: none, kind: capture, root: none}}]
topics: {{orders: {{dedup: {{id: key, window: {window}}}}}}}
limits: {{file_bytes: 1MiB}}
"""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic with one or more partitions; `day` is its run date, in days since `FIRST`."""

    day: int
    partition: int
    offset: int
    id: bytes | None
    producer_id: int

    @property
    def address(self) -> tuple[int, int, int]:
        return self.day, self.partition, self.offset


Address = tuple[int, int, int]
Sent = tuple[int, bytes | None, int]
"""Partition, id and producer id."""


def expected(records: Sequence[Record], window: int | None) -> dict[Address, Address]:
    """The duplicates with their first records, one record after the other."""
    firsts: dict[bytes, Record] = {}
    found: dict[Address, Address] = {}
    for record in sorted(records, key=lambda each: each.address):
        if record.id is None:
            continue
        first = firsts.get(record.id)
        if first is not None and (window is None or first.day >= record.day - window):
            found[record.address] = first.address
        else:
            firsts[record.id] = record
    return found


def found_by_step(
    directory: Path, records: Sequence[Record], window: int | None, files: int
) -> tuple[dict[Address, Address], set[Address], list[str]]:
    """Duplicates, published records, and the state of the step after each run date."""
    text = CONFIG.format(window=f"{window}d" if window is not None else "null")
    settings = parse_settings(text, name="onceover.yaml", base=directory)
    duplicates: dict[Address, Address] = {}
    published: set[Address] = set()
    states, chain = list[str](), Chain()
    for day, same in groupby(sorted(records, key=lambda each: each.address), key=lambda each: each.day):
        folder = RunFolder(open_lake(settings), _inputs(day, chain))
        _write(settings, folder, list(same), files)
        result = step.run(RunContext(settings=settings, folder=folder, chain=chain, spark=InProcess()))
        states.append(str(result.state))
        chain = Chain((_entry(folder, day, f"{day + 1:064d}"),))
        published |= set(_published(folder, day))
        duplicates |= dict(_duplicates(folder, day))
    return duplicates, published, states


def _inputs(day: int, chain: Chain) -> RunInputs:
    state = chain.entries[-1].state_out if chain.entries else EMPTY_STATE
    return RunInputs(day=FIRST + timedelta(days=day), manifest="0" * 64, config="0" * 64, state_in=state)


def _entry(folder: RunFolder, day: int, state: str) -> ChainEntry:
    return ChainEntry(
        number=1,
        parent="",
        kind=EntryKind.RUN,
        run_id=folder.run_id,
        day=FIRST + timedelta(days=day),
        manifest="",
        config="",
        state_in="",
        state_out=state,
        last_step=Step.REPORT,
        outputs="",
    )


def _write(settings: Settings, folder: RunFolder, records: Sequence[Record], files: int) -> None:
    """The files of a run as `materialise` leaves them."""
    written = []
    schema = topic_contract(settings, "orders", "orders").schema
    for number in range(files):
        rows = [_row(record, schema) for record in records[number::files]]
        if rows:
            table = pa.Table.from_pylist(rows, schema).cast(as_written(schema))
            output = put_table(folder.lake, folder.key(Step.MATERIALISE), f"orders/{number}.parquet", table)
            written.append((output, len(rows)))
    put_listing(folder, Step.MATERIALISE, entries_of("topics", "orders", written, topic="orders"))


def _row(record: Record, schema: pa.Schema) -> dict[str, Any]:
    known: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "key": record.id,
        "producer_id": record.producer_id,
        "transactional_id": f"t{record.producer_id}" if record.producer_id % 2 else None,
        "timestamp_type": "CreateTime",
        "headers": [],
        "run_date": FIRST + timedelta(days=record.day),
    }
    return {field.name: known.get(field.name, None if field.nullable else 0) for field in schema}


def _published(folder: RunFolder, day: int) -> Iterator[Address]:
    for where, entry in final_listing(folder):
        if entry.topic == "orders" and entry.file is not None:
            for row in read_table(folder.lake, folder.key(where, entry.file)).to_pylist():
                yield day, row["partition"], row["offset"]


def _duplicates(folder: RunFolder, day: int) -> Iterator[tuple[Address, Address]]:
    for entry in read_listing(folder, Step.DEDUPLICATE):
        if entry.topic is None and entry.file is not None:
            for row in read_table(folder.lake, folder.key(Step.DEDUPLICATE, entry.file)).to_pylist():
                first = (row["first_run_date"] - FIRST).days, row["first_partition"], row["first_offset"]
                yield (day, row["partition"], row["offset"]), first


@contextmanager
def sized(*, buckets: int, part: int, piece: int) -> Iterator[None]:
    """Buckets, records of a part of a file, and ids of a file of the index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_index, "FAN_OUT", 2)
        patch.setattr(id_index, "BYTES_PER_ID", 2**20 // piece)
        patch.setattr(parquet_file, "ROWS_AT_A_TIME", part)
        if buckets:
            patch.setattr(step, "bucket_count", lambda *_: buckets)
        yield


def numbered(days: Sequence[int], sent: Sequence[Sent]) -> list[Record]:
    """Records in order; `days` are how many of them each run date has, the last one has the rest."""
    dates = [day for day, count in enumerate(days) for _ in range(count)]
    offsets: dict[int, int] = {}
    records = []
    for place, (partition, id_, producer_id) in enumerate(sent):
        offsets[partition] = offset = offsets.get(partition, -1) + 1
        day = dates[place] if place < len(dates) else len(days)
        records.append(Record(day, partition, offset, id_, producer_id))
    return records


SENT = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.none(), st.sampled_from([b"%d" % n for n in range(9)])),
        st.integers(-1, 3),
    ),
    min_size=1,
    max_size=40,
)


@examples(max_examples=30, deadline=None)
@given(
    sent=SENT,
    days=st.lists(st.integers(0, 15), max_size=4),
    window=st.one_of(st.none(), st.integers(1, 3)),
    files=st.integers(1, 3),
    buckets=st.sampled_from([0, 1, 2, 16]),
    part=st.sampled_from([1, 3, 100]),
    piece=st.sampled_from([1, 2, 5, 1000]),
)
def test_the_step_finds_what_a_loop_finds(
    *, sent: list[Sent], days: list[int], window: int | None, files: int, buckets: int, part: int, piece: int
) -> None:
    records = numbered(days, sent)
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        with sized(buckets=buckets, part=part, piece=piece):
            duplicates, published, states = found_by_step(Path(one), records, window, files)
        with sized(buckets=8, part=100, piece=piece):
            assert states == found_by_step(Path(other), records, window, 1)[2]
    assert duplicates == expected(records, window)
    assert published == {record.address for record in records} - set(duplicates)


@examples(max_examples=10, deadline=None)
@given(sent=SENT, days=st.lists(st.integers(0, 15), max_size=4), buckets=st.sampled_from([0, 4]))
def test_how_records_are_cut_into_runs_does_not_change_what_is_published(
    sent: list[Sent], days: list[int], buckets: int
) -> None:
    found = []
    for cut in ([], days):
        with TemporaryDirectory() as directory, sized(buckets=buckets, part=3, piece=2):
            records = numbered(cut, sent)
            _, published, _ = found_by_step(Path(directory), records, None, 2)
        ids = [record.id for record in records if record.address in published]
        found.append(sorted(each or b"" for each in ids))
    assert found[0] == found[1]
