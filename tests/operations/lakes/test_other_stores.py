"""Lakes on S3 and catalogs that are services: copies are refused and relocated, losses found and repaired."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import CatalogDiffers, CatalogUnfit, LakeMoved
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.check import FindingSeverity, check
from spark_jobs.operations.relocate import relocate
from spark_jobs.operations.repair import RepairKind, plan_repair, repair
from tests.catalog_servers import running_postgres, running_rest_catalog
from tests.operations.lakes.small_lake import arrive, rows, run_ids, tree
from tests.operations.replay.runs import Shop, run
from tests.pipeline.runs import day
from tests.s3_server import S3Server

pytestmark = pytest.mark.usefixtures("great_expectations")


def _on_s3(shop: Shop, server: S3Server, bucket: str, lake: str) -> Settings:
    """A lake on S3 with a SQL catalog of its own."""
    more = (
        f"catalog: {{kind: sql, uri: 'sqlite:///{shop.directory}/{lake}.db'}}\n"
        f"s3: {{endpoint_url: '{server.endpoint_url}', addressing: path}}\n"
    )
    settings = shop.settings(more=more)
    return settings.model_copy(update={"lake": f"s3://{bucket}/{lake}"})


def _errors(settings: Settings, *, deep: bool = False) -> list[str]:
    return [str(each) for each in check(settings, deep=deep) if each.severity is FindingSeverity.ERROR]


def test_a_lake_on_s3_is_copied_relocated_checked_and_repaired(tmp_path: Path, s3_server: S3Server) -> None:
    shop, bucket = Shop(tmp_path), s3_server.new_bucket()
    settings = _on_s3(shop, s3_server, bucket, "lake")
    for number in (1, 2):
        arrive(shop, number)
        run(settings, number)
    assert _errors(settings, deep=True) == []
    theirs = rows(settings)

    files = s3_server.files / bucket
    shutil.copytree(files / "lake", files / "copy")
    copy = _on_s3(shop, s3_server, bucket, "copy")
    before = tree(files / "lake")
    arrive(shop, 3)
    with pytest.raises(LakeMoved, match=f"made at s3://{bucket}/lake"):
        run(copy, 3)
    shared = copy.model_copy(update={"catalog": settings.catalog})
    with pytest.raises(CatalogUnfit, match="a catalog of its own"):
        relocate(shared)
    relocate(copy)
    with pytest.raises(CatalogDiffers, match="onceover repair"):
        run(copy, 3)
    assert {each.kind for each in repair(copy)} == {RepairKind.ENTER}
    assert rows(copy) == theirs
    assert _errors(copy, deep=True) == []

    run(copy, 3)
    assert len(rows(copy)["topics.plain"]) == 3
    assert tree(files / "lake") == before
    assert rows(settings) == theirs
    lost = f"runs/{run_ids(copy)[day(2)]}/materialise/records/plain/"
    key = next(found.key for found in open_lake(copy).list(lost))
    open_lake(copy).delete(key)
    assert any(f"{key} is missing" in each for each in _errors(copy))


@contextmanager
def _catalog(kind: str, place: Path) -> Iterator[str]:
    if kind == "postgres":
        with running_postgres(place / "postgres") as uri:
            yield f"catalog: {{kind: sql, uri: '{uri}'}}\n"
    else:
        with running_rest_catalog(place / "rest", str(place / "lake" / "tables")) as uri:
            yield f"catalog: {{kind: rest, uri: '{uri}'}}\n"


@pytest.mark.parametrize("kind", ["postgres", "rest"])
def test_a_catalog_that_is_a_service_gets_its_tables_back(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path)
    with _catalog(kind, tmp_path) as more:
        settings = shop.settings(more=more)
        for number in (1, 2):
            arrive(shop, number)
            run(settings, number)
        theirs = rows(settings)
        assert _errors(settings, deep=True) == []
        with open_catalog(settings) as catalog:
            for name in (("topics", "plain"), ("onceover", "runs")):
                catalog.drop_table(name)
        arrive(shop, 3)
        with pytest.raises(CatalogDiffers):
            run(settings, 3)
        assert repair(settings)
        assert plan_repair(settings) == []
        assert rows(settings) == theirs
        assert _errors(settings) == []
        run(settings, 3)
        assert len(rows(settings)["topics.plain"]) == 3
