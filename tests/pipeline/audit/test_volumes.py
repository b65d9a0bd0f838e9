from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, ChainEntry, EntryKind
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.audit.source_facts import earlier_volumes, topic_volumes
from spark_jobs.tables.audit import PARTITION_FACTS, TOPIC_VOLUMES
from tests.expectations.runs import GOOD_PARTITION, table, volumes

FIRST = date(2024, 5, 1)


def _entry(number: int, day: date) -> ChainEntry:
    return ChainEntry(
        number=number,
        parent="",
        kind=EntryKind.RUN,
        run_id=f"run-{number}",
        day=day,
        manifest="",
        config="",
        state_in="",
        state_out="",
        last_step=Step.PUBLISH,
        outputs="",
    )


def _records(tables: tuple[pa.Table, ...]) -> list[int]:
    return [table.column("records")[0].as_py() for table in tables]


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    """Forty runs, a run each, of as many records as their number; the 35th has no audit."""
    lake = FileStore(str(tmp_path))
    for number in range(40):
        if number != 35:
            put_table(
                lake, step_key(f"run-{number}", Step.AUDIT), TOPIC_VOLUMES.file, volumes(records=number)
            )
    return lake


def test_a_run_adds_up_its_partitions_by_topic() -> None:
    rows = [GOOD_PARTITION | {"topic": topic, "partition": n} for topic, n in (("b", 0), ("a", 0), ("b", 1))]
    found = topic_volumes(table(PARTITION_FACTS, *rows)).to_pylist()
    assert [(row["topic"], row["batches"], row["duplicate"], row["records"]) for row in found] == [
        ("a", 10, 2, 80),
        ("b", 20, 4, 160),
    ]


def test_what_is_usual_is_reported_by_the_last_28_runs_before_the_day(lake: FileStore) -> None:
    chain = Chain(tuple(_entry(number, FIRST + timedelta(days=number)) for number in range(40)))
    found = earlier_volumes(lake, chain, FIRST + timedelta(days=34), runs=28)
    assert _records(found) == list(range(6, 34))


def test_runs_without_an_audit_are_left_out(lake: FileStore) -> None:
    chain = Chain(tuple(_entry(number, FIRST + timedelta(days=number)) for number in range(40)))
    found = earlier_volumes(lake, chain, FIRST + timedelta(days=40), runs=28)
    assert _records(found) == [number for number in range(12, 40) if number != 35]


def test_a_replaced_run_does_not_count(lake: FileStore) -> None:
    chain = Chain((_entry(0, FIRST), _entry(1, FIRST)))
    assert _records(earlier_volumes(lake, chain, FIRST + timedelta(days=1), runs=28)) == [1]


def test_there_is_nothing_before_the_first_run(lake: FileStore) -> None:
    assert earlier_volumes(lake, Chain(), FIRST, runs=28) == ()
