"""Files are described as pyiceberg itself describes them, only without finding out the same for each."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table

from spark_jobs.config.load import parse_settings
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import footers_of
from spark_jobs.lake.iceberg.target import TableTarget
from tests.bench.commits import CONFIG, _target
from tests.lake.iceberg.places import made_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    settings = parse_settings(CONFIG, name="test.yaml", base=tmp_path)
    with open_catalog(settings) as catalog:
        return made_table(catalog, TableTarget(namespace="topics", contract=contract_of(tmp_path).contract))


def contract_of(folder: Path) -> TableTarget:
    return _target(folder / "files", 3)


def test_every_file_is_described_as_pyiceberg_does(tmp_path: Path, table: Table) -> None:
    paths = sorted(map(str, (tmp_path / "files").glob("*.parquet")))
    found = list(footers_of(table.io, table.metadata).describe_all(paths))
    expected = [parquet_file_to_data_file(table.io, table.metadata, path) for path in paths]
    assert [list(file._data) for file in found] == [list(file._data) for file in expected]
    assert len({file.file_path for file in found}) == 3


def test_a_file_that_does_not_fit_is_refused_among_those_that_do(tmp_path: Path, table: Table) -> None:
    paths = sorted((tmp_path / "files").glob("*.parquet"))
    paths[1].unlink()
    pq.write_table(pa.table({"something": [1]}), paths[1])
    with pytest.raises(ValueError, match="something"):
        list(footers_of(table.io, table.metadata).describe_all([*map(str, paths)]))
