"""With every catalog and store, a run is published, rolled back and read alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import make_final, read_chain
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.publish import step as publish
from tests.catalog_servers import running_postgres, running_rest_catalog
from tests.pipeline.materialise.truth import DATA, recorded_partitions
from tests.pipeline.resolved import do, do_until_published, resolved_run
from tests.s3_server import S3Server

RECORDING = "oracle_E"


def _settings(place: Path, catalog: str = "", *, lake: str = "lake", more: str = "") -> Settings:
    root = DATA / RECORDING / "data"
    source = f"{{name: broker, kind: broker-log, root: '{root}', immutable: true}}"
    config = f"lake: {lake}\nsources: [{source}]\n{catalog}\n{more}"
    return parse_settings(config, name="test.yaml", base=place)


@contextmanager
def _configured(kind: str, place: Path, s3_server: S3Server) -> Iterator[Settings]:
    """Settings with that catalog, which runs."""
    bucket = f"s3://{s3_server.new_bucket()}/lake"
    s3 = f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}"
    if kind == "postgres":
        with running_postgres(place / "postgres") as uri:
            yield _settings(place, f"catalog: {{kind: sql, uri: '{uri}'}}")
    elif kind == "rest":
        with running_rest_catalog(place / "rest", str(place / "lake" / "tables")) as uri:
            yield _settings(place, f"catalog: {{kind: rest, uri: '{uri}'}}")
    elif kind == "glue":
        with mock_aws():
            yield _settings(place, "catalog: {kind: glue, properties: {glue.region: us-east-1}}")
    else:
        uri = f"sqlite:///{place}/catalog.db"
        yield _settings(place, f"catalog: {{kind: sql, uri: '{uri}'}}", lake=bucket, more=s3)


def _publish(settings: Settings, name: str, day: int) -> str:
    """A final run of one recorded partition, published twice: the second time adds nothing."""
    directories = [path for path in recorded_partitions(RECORDING) if path.name == name]
    run = date(2024, 5, day)
    state_in = read_chain(open_lake(settings)).state_before(run)
    context = resolved_run(settings, directories, day=run, state_in=state_in)
    do_until_published(context)
    do(context, Step.PUBLISH, publish.run)
    chain = read_chain(context.lake)
    make_final(
        context.lake, chain, context.folder.inputs, state_out=f"s{day}", last_step=Step.PUBLISH, outputs="o"
    )  # fmt: skip
    return context.folder.run_id


def _cuts(settings: Settings) -> dict[str, Any]:
    """Of every table the rows, the tags, and how many snapshots there are."""
    spaces = (settings.catalog.topics, settings.catalog.namespace)
    with open_catalog(settings) as catalog:
        names = [name for space in spaces for name in catalog.list_tables(space)]
        tables = {".".join(name): catalog.load_table(name) for name in names}
        return {
            name: (
                sorted(map(str, table.scan().to_arrow().to_pylist())),
                sorted(table.refs()),
                len(table.snapshots()),
            )
            for name, table in tables.items()
        }


def _story(settings: Settings) -> list[dict[str, Any]]:
    """Two runs are published, the second is taken back and published again."""
    _publish(settings, "orc-1", 1)
    cuts = [_cuts(settings)]
    second = _publish(settings, "orc-2", 2)
    cuts.append(_cuts(settings))
    roll_back(settings, second)
    cuts.append(_cuts(settings))
    _publish(settings, "orc-2", 2)
    return [*cuts, _cuts(settings)]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """As it goes with the embedded catalog in a directory."""
    return _story(_settings(tmp_path_factory.mktemp("embedded")))


@pytest.mark.parametrize("kind", ["postgres", "rest", "glue", "s3"])
def test_every_catalog_and_store_gives_the_same_tables(
    kind: str, tmp_path: Path, s3_server: S3Server, story: list[dict[str, Any]]
) -> None:
    with _configured(kind, tmp_path, s3_server) as settings:
        assert _story(settings) == story
