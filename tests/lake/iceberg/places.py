"""Small tables and runs to publish them with."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.lake.iceberg.schema import begin_change
from spark_jobs.lake.iceberg.target import DataFile, RunStamp, TableTarget
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.stores import open_lake
from spark_jobs.tables.contract import RUN_DATE, Column, Contract

CONTRACT = Contract(
    name="things",
    meaning="Things that were counted.",
    columns=(Column("number", pa.int64(), "what was counted"), RUN_DATE),
    key=("number",),
)


def settings_at(place: Path, more: str = "") -> Settings:
    config = f"lake: lake\nsources: [{{name: s, kind: capture, root: source}}]\n{more}"
    return parse_settings(config, name="test.yaml", base=place)


def stamp_of(run_id: str, day: int = 1) -> RunStamp:
    digests = {name: f"{name} of {run_id}" for name in ("manifest", "config", "state_in", "state_out")}
    return RunStamp(run_id=run_id, day=date(2024, 5, day), **digests)


def target_of(
    settings: Settings, stamp: RunStamp, *files: Sequence[int], contract: Contract = CONTRACT
) -> TableTarget:
    """Files with these numbers, each written where the run has its own."""
    return TableTarget(
        namespace="topics",
        contract=contract,
        files=tuple(_write(settings, stamp, contract, n, numbers) for n, numbers in enumerate(files)),
        topic="things",
        next_offsets={0: 7},
    )


def _write(
    settings: Settings, stamp: RunStamp, contract: Contract, name: int, numbers: Sequence[int]
) -> DataFile:
    lake, folder = open_lake(settings), f"runs/{stamp.run_id}/materialise"
    rows = [{"number": number, "run_date": stamp.day, "note": str(number)} for number in numbers]
    put_table(lake, folder, f"{name}.parquet", pa.Table.from_pylist(rows, schema=contract.schema))
    return DataFile(location=lake.url_of(f"{folder}/{name}.parquet"), rows=len(numbers))


def made_table(catalog: Catalog, target: TableTarget) -> Table:
    """The target's table without a snapshot, as an earlier version left it when it died."""
    begin_change(catalog, None, target).transaction.commit_transaction()
    return catalog.load_table(target.name)


def numbers_in(catalog: Catalog, tag: str | None = None) -> list[int]:
    """What a reader of the table finds, now or as of a tag."""
    table = catalog.load_table(("topics", "things"))
    snapshot_id = table.refs()[tag].snapshot_id if tag else None
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted(row["number"] for row in rows)
