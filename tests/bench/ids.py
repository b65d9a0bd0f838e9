"""Business ids of a run against histories of several sizes: the whole step, and what Spark offers instead.

A lake is built of ten run dates by the step itself and kept. The largest history has generated hashes, of
which no id is known: they cost what others cost, and none is hit. One record in `REPEATED` of the measured
run has an id of history, spread over all its dates and over all files of the run.

Rivals read the same files. Each has a row that writes the records that the run keeps with all their columns,
as the step does, and one that only finds the new ids. None of them writes duplicates or an index. They are a
process of their own, with the JVM's own compiler settings: `ids_rivals`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.classic import java_home
from spark_jobs.flow import Step
from spark_jobs.kernels.ids import bucket_range
from spark_jobs.lake.chain import Chain, ChainEntry, EntryKind
from spark_jobs.lake.iceberg.topic_tables import topic_contract
from spark_jobs.lake.id_index import (
    IdFile,
    IdIndex,
    SortedRun,
    day_number,
    indexes_of,
    piece_count,
    put_hashes,
    put_indexes,
    read_index_rows,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.lake.run_folder import EMPTY_STATE, OutputFile, RunFolder, RunInputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.lake.table_listing import entries_of, put_listing
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.deduplicate import step
from spark_jobs.tables.materialise import as_written, record_options
from tests.bench.measure import Watched
from tests.bench.workspace import Row, Workspace
from tests.maven import JarsMissing, fetched_jars

DATES = 10
FILES = 8
"""Of a run."""
GENERATED = 9
"""The largest history is so many times the one of all dates larger."""
REPEATED = 1000
FIRST = date(2026, 1, 1)
VALUE = b'{"amount": 12.50, "currency": "EUR", "state": "paid"}'
JSON_VALUE = (
    b'{"order_id": "',
    (
        b'", "customer": {"id": 1017, "country": "DE"}, "currency": "EUR", "amount": 12.50, "state": "paid", '
        b'"lines": [{"sku": "A-17", "count": 2}, {"sku": "C-3", "count": 1}]}'
    ),
)
"""What is before and after the id."""
CONFIG = """
lake: {lake}
sources: [{{name: none, kind: capture, root: none}}]
topics: {{orders: {{dedup: {{id: {id}}}}}}}
"""
ICEBERG_SPARK = Path.home() / ".cache" / "onceover" / "pyspark-4.1.4" / "bin" / "python"
"""An environment that a test makes: Iceberg has no runtime yet for the Spark that Onceover runs on."""

Ids = npt.NDArray[np.uint8]
"""A row of bytes for each id."""
HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
CROCKFORD = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)


def uuids(random: np.random.Generator, count: int, _: int) -> Ids:
    """Random ids of 36 bytes."""
    data = np.empty((count, 36), dtype=np.uint8)
    places = np.setdiff1d(np.arange(36), [8, 13, 18, 23])
    drawn = random.integers(0, 256, (count, 16), dtype=np.uint8)
    data[:, places[0::2]], data[:, places[1::2]] = HEX[drawn >> 4], HEX[drawn & 15]
    data[:, [8, 13, 18, 23]] = ord("-")
    return data


def ulids(random: np.random.Generator, count: int, first: int) -> Ids:
    """Ten letters of time, which grow, and sixteen random ones."""
    data = CROCKFORD[random.integers(0, 32, (count, 26), dtype=np.uint8)]
    times = first + np.arange(count) // 100
    data[:, :10] = CROCKFORD[(times[:, None] >> (5 * np.arange(9, -1, -1))) & 31]
    return data


def counters(_: np.random.Generator, count: int, first: int) -> Ids:
    """Numbers that grow."""
    digits = 10 ** np.arange(12, -1, -1)
    return (((first + np.arange(count))[:, None] // digits) % 10 + ord("0")).astype(np.uint8)


MAKERS: dict[str, Callable[[np.random.Generator, int, int], Ids]] = {
    "UUID": uuids,
    "ULID": ulids,
    "counter": counters,
    "UUID in JSON": uuids,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A lake with the index of `dates` run dates, `ids` of each, of one kind of ids."""

    place: Path
    kind: str
    ids: int
    dates: int

    @property
    def settings(self) -> Settings:
        text = CONFIG.format(lake=self.place / "lake", id="[order_id]" if self.is_json else "key")
        return parse_settings(text, name="ids.yaml", base=self.place)

    @property
    def is_json(self) -> bool:
        """Whether the id is a field of the value."""
        return self.kind.endswith("JSON")

    def day(self, number: int) -> date:
        return FIRST + timedelta(days=number)

    def ids_of(self, number: int, file: int, count: int | None = None) -> Ids:
        """The ids of a file of a date."""
        size = self.ids // FILES
        first = 10**12 + number * self.ids + file * size
        return MAKERS[self.kind](np.random.default_rng([number, file]), count or size, first)

    def repeats(self, number: int) -> Ids:
        """Ids of all earlier dates, as many as a run after `number` dates repeats."""
        each = max(self.ids // REPEATED // number, 1)
        return np.concatenate([self.ids_of(day, 0, each) for day in range(number)])


def folder_of(history: History, number: int, name: str = "") -> RunFolder:
    """The folder of a run date; `name` distinguishes several runs of one."""
    lake, state = open_lake(history.settings), state_of(number - 1) if number else EMPTY_STATE
    inputs = RunInputs(day=history.day(number), manifest=f"{name:0<64}", config="0" * 64, state_in=state)
    return RunFolder(lake, inputs)


def state_of(number: int) -> str:
    return f"{number + 1:064d}"


def chain_of(history: History, number: int) -> Chain:
    """A chain that ends with the run before."""
    if not number:
        return Chain()
    before = folder_of(history, number - 1)
    entry = ChainEntry(
        number=1,
        parent="",
        kind=EntryKind.RUN,
        run_id=before.run_id,
        day=history.day(number - 1),
        manifest="",
        config="",
        state_in="",
        state_out=state_of(number - 1),
        last_step=Step.REPORT,
        outputs="",
    )
    return Chain((entry,))


# Data.


def write_records(history: History, folder: RunFolder, number: int, repeats: Ids | None = None) -> list[str]:
    """The files of records of a date, as `materialise` leaves them; returns their paths."""
    files = []
    for file in range(FILES):
        ids = history.ids_of(number, file)
        if repeats is not None:
            again = repeats[file::FILES]
            ids[np.linspace(0, len(ids) - 1, len(again)).astype(np.int64)] = again
        files.append((_write(history, folder, number, file, ids), len(ids)))
    put_listing(folder, Step.MATERIALISE, entries_of("topics", "orders", files, topic="orders"))
    return [str(folder.lake.local_path(folder.key(Step.MATERIALISE, output.path))) for output, _ in files]


def _write(history: History, folder: RunFolder, number: int, file: int, ids: Ids) -> OutputFile:
    schema = topic_contract(history.settings, "orders", "orders").schema
    count = len(ids)
    first = number * history.ids + file * count
    zeros = np.zeros(count, dtype=np.int64)
    times = np.datetime64(history.day(number), "us") + np.arange(count)
    columns: dict[str, Any] = {
        "offset": pa.array(np.arange(first, first + count)),
        "timestamp": pa.array(times),
        "timestamp_type": pa.array(["CreateTime"]).take(zeros),
        "timestamp_out_of_range": pa.nulls(count, pa.int64()),
        "key": pa.nulls(count, pa.binary()) if history.is_json else _column(ids),
        "value": _column(_values(ids)) if history.is_json else pa.array([VALUE], pa.binary()).take(zeros),
        "headers": pa.array([[]], schema.field("headers").type).take(zeros),
        "transactional_id": pa.nulls(count, pa.string()),
        "run_date": pa.array([history.day(number)]).take(zeros),
    }
    arrays = [columns.get(field.name, pa.array(zeros)).cast(field.type) for field in schema]
    written = as_written(schema)
    options = {"store_schema": False, **record_options(written)}
    with ParquetOutput(folder.lake, written, options) as output:
        output.write(pa.table(arrays, schema=schema).cast(written))
        return output.finish(folder.key(Step.MATERIALISE), f"orders/{file:04d}.parquet")


def _values(ids: Ids) -> Ids:
    before, after = (np.frombuffer(part, dtype=np.uint8) for part in JSON_VALUE)
    return np.hstack([np.tile(before, (len(ids), 1)), ids, np.tile(after, (len(ids), 1))])


def _column(ids: Ids) -> Any:
    ends = np.arange(len(ids) + 1, dtype=np.int32) * ids.shape[1]
    return pa.Array.from_buffers(
        pa.binary(), len(ids), [None, pa.py_buffer(ends), pa.py_buffer(ids.tobytes())]
    )


def build(space: Workspace, history: History) -> None:
    """Every run date by the step itself, unless it was built before."""
    for number in range(history.dates):
        folder = folder_of(history, number)
        if folder.lake.stat(f"built/{number}") is None:
            space.on_progress(f"{history.kind}: building date {number + 1} of {history.dates}")
            write_records(history, folder, number)
            step.run(context_of(space, history, folder, number))
            folder.lake.put(f"built/{number}", b"")


def context_of(space: Workspace, history: History, folder: RunFolder, number: int) -> RunContext:
    return RunContext(
        settings=history.settings, folder=folder, chain=chain_of(history, number), spark=space.spark
    )


def generated(space: Workspace, history: History) -> SortedRun:
    """A sorted run of hashes that no id has, of earlier dates; built once."""
    lake, ids = open_lake(history.settings), GENERATED * history.dates * history.ids
    key, count = "built/generated", piece_count(ids, history.settings.limits.file_bytes)
    if lake.stat(key) is None:
        space.on_progress(f"generating {ids:,} hashes")
        tasks = [(lake, number, count, ids // count) for number in range(count)]
        pieces = space.spark.run_tasks(generate_piece, tasks)
        plain = [[piece.digest, piece.ids, piece.bytes] for piece in pieces]
        lake.put(key, json.dumps(plain).encode())
    found = [IdFile(digest=digest, ids=n, bytes=size) for digest, n, size in json.loads(lake.read(key))]
    day = day_number(FIRST)
    return SortedRun(first=day - 512, last=day - 1, level=3, pieces=tuple(found))


def generate_piece(task: tuple[ObjectStore, int, int, int]) -> IdFile:
    """A file of hashes whose gaps are those of random ones."""
    lake, number, count, ids = task
    random, (first, last) = np.random.default_rng([99, number]), bucket_range(number, count)
    width = (last - first) * (1 - 1e-9)  # a float of a whole range could be rounded up
    places = np.minimum(np.cumsum(random.exponential(width / (ids + 1), ids)), width)
    hashes = (places.astype(np.uint64) + np.uint64(first % 2**64)).view(np.int64)
    days = random.integers(day_number(FIRST) - 512, day_number(FIRST), ids, dtype=np.int32)
    return put_hashes(lake, hashes, days)


# The step.


def step_row(space: Workspace, history: History, number: int, *, with_generated: bool = False) -> Row:
    """The whole step of a run after `number` dates: a run with repeated ids, read from its files."""
    before = folder_of(history, number - 1)
    [index] = indexes_of(read_index_rows(before.lake, before.run_id)).values()
    if with_generated:
        index = replace(index, hashes=(generated(space, history), *index.hashes))
        put_indexes(folder_of(history, number - 1, "large"), [index])
    folder = folder_of(history, number, "measured")
    write_records(history, folder, number, history.repeats(number))
    context = context_of(space, history, folder, number)
    if with_generated:
        entry = replace(context.chain.entries[0], run_id=folder_of(history, number - 1, "large").run_id)
        context = replace(context, chain=Chain((entry,)))
    folder.begin(Step.DEDUPLICATE)
    with Watched() as watched:
        began = perf_counter()
        result = step.run(context)
        seconds = perf_counter() - began
    assert result.counts["duplicates"] == len(history.repeats(number))
    return Row(
        title=f"Onceover, step deduplicate, {history.kind}",
        data=_size(index),
        seconds=seconds,
        cpu_seconds=watched.cpu_seconds(),
        records=result.counts["records"],
        bytes=index.bytes,
        numbers={
            **cpu_split(watched),
            "bytes per id": index.bytes / index.ids,
            "read bytes": watched.bytes_read(),
            "worker MB": watched.most_megabytes("pyspark.daemon"),
            "new ids": result.counts["records"] - result.counts["duplicates"],
        },
    )


def cpu_split(watched: Watched) -> dict[str, float]:
    """CPU seconds of the JVM, which moves rows, of Python workers and of this process, the driver."""
    used = {pid: each.cpu_seconds for pid, each in watched.seen.items()}
    used = {pid: seconds - _before(watched, pid) for pid, seconds in used.items()}
    workers = sum(used[each.pid] for each in watched.workers())
    java = sum(used[pid] for pid, each in watched.seen.items() if "java" in each.command.partition(" ")[0])
    return {"JVM CPU s": java, "worker CPU s": workers, "driver CPU s": watched.own_seconds}


def _before(watched: Watched, pid: int) -> float:
    return watched.before[pid].cpu_seconds if pid in watched.before else 0.0


def _size(index: IdIndex) -> str:
    return f"{float(f'{index.ids / 1e6:.3g}'):,g} M"


# Rivals.

WAYS = ("anti-join", "anti-join, ids only", "row_number", "dropDuplicates, ids only")
MERGE_WAYS = ("MERGE", "MERGE, ids only")


def rival_rows(space: Workspace, history: History, number: int) -> Iterator[Row]:
    """Spark's ways to the same ids."""
    yield from _rivals(space, history, number, {"ways": WAYS, "jars": ""})
    try:
        jars = ",".join(map(str, sorted(fetched_jars("iceberg/spark").glob("*.jar"))))
    except JarsMissing as missing:
        yield Row(title="Spark MERGE", note=str(missing))
        return
    if not ICEBERG_SPARK.exists():
        yield Row(title="Spark MERGE", note="no pyspark 4.1: tests/e2e/test_spark_reads.py fetches it")
        return
    yield from _rivals(space, history, number, {"ways": MERGE_WAYS, "jars": jars}, str(ICEBERG_SPARK))


def _rivals(
    space: Workspace, history: History, number: int, asked: dict[str, Any], python: str = sys.executable
) -> Iterator[Row]:
    """What a process of its own measures."""
    folders = [folder_of(history, day) for day in range(number)] + [folder_of(history, number, "measured")]
    paths = [str(folder.lake.local_path(folder.key(Step.MATERIALISE, "orders"))) for folder in folders]
    place = space.home / "ids" / "rivals"
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYTHONPATH"):
        environment.pop(name, None)
    asked = {**asked, "paths": paths, "place": str(place), "cores": os.cpu_count()}
    script = str(Path(__file__).with_name("ids_rivals.py"))
    command = [python, script, json.dumps(asked)]
    done = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{python} {script}: {done.stderr[-2000:]}")
    for line in done.stdout.splitlines():
        found = json.loads(line)
        space.on_progress(
            f"Spark {found['way']}: {found['seconds']:.1f} s, {found['cpu']:.0f} s of all cores"
        )
        yield Row(
            title=f"Spark {found['way']}",
            data=f"{number * history.ids / 1e6:,.3g} M",
            seconds=found["seconds"],
            cpu_seconds=found["cpu"],
            records=history.ids // FILES * FILES,
            numbers={"new ids": found["new"]},
        )


def place_of(home: Path, kind: str, ids: int) -> Path:
    """Where a history is kept; one of another size is another history."""
    return home / f"{kind}, {ids} a date"


def measure(space: Workspace) -> Sequence[Row]:
    """The step by kind of id and size of history, and rivals on two of the sizes."""
    ids = space.volume.records // FILES * FILES
    home = space.home / "ids"
    rows = []
    for kind in ("ULID", "counter", "UUID in JSON"):
        other = History(place=place_of(home, kind, ids), kind=kind, ids=ids, dates=1)
        build(space, other)
        rows.append(_shown(space, step_row(space, other, 1)))
    history = History(place=place_of(home, "UUID", ids), kind="UUID", ids=ids, dates=DATES)
    build(space, history)
    for number in (1, DATES):
        rows.append(_shown(space, step_row(space, history, number)))
        rows += rival_rows(space, history, number)
    rows.append(_shown(space, step_row(space, history, DATES, with_generated=True)))
    assert all(
        len({row.numbers["new ids"] for row in rows if row.data == each}) == 1 for each in _compared(rows)
    )
    return rows


def _compared(rows: Sequence[Row]) -> set[str]:
    return {row.data for row in rows if row.title.startswith("Spark") and not row.note}


def _shown(space: Workspace, row: Row) -> Row:
    space.on_progress(
        f"{row.title}, {row.data}: {row.seconds:.1f} s, {row.cpu_seconds:.1f} s of all cores, "
        f"{row.numbers['bytes per id']:.2f} bytes per id"
    )
    return row
