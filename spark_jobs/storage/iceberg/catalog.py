"""The way to the catalog that the settings name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from spark_jobs.config.catalog import CatalogKind
from spark_jobs.config.settings import S3Settings, Settings
from spark_jobs.storage.errors import CatalogUnfit, PublishFailed

NAME = "onceover"
CATALOG_FILE = Path("catalog", "onceover.db")
WAREHOUSE = "tables"
_TYPES = {CatalogKind.SQLITE: "sql"}


@contextmanager
def open_catalog(settings: Settings) -> Iterator[Catalog]:
    """The catalog, with both namespaces in it; closed in the end."""
    catalog = _reached(settings)
    try:
        yield catalog
    finally:
        catalog.close()


def _reached(settings: Settings) -> Catalog:
    """The catalog once it has answered; whatever it raises instead is told in a line, which can pass."""
    properties = catalog_properties(settings)
    try:
        catalog = load_catalog(NAME, **properties)
        for namespace in (settings.catalog.topics, settings.catalog.namespace):
            catalog.create_namespace_if_not_exists(namespace)
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        kind = settings.catalog.kind
        raise PublishFailed(f"the {kind} catalog does not answer as one: {first_line}") from error
    return catalog


def catalog_properties(settings: Settings) -> dict[str, str]:
    """What pyiceberg is told; secrets come from its own environment variables."""
    catalog = settings.catalog
    properties = {
        "type": _TYPES.get(catalog.kind, catalog.kind.value),
        "warehouse": catalog.warehouse or f"{settings.lake}/{WAREHOUSE}",
        **_s3_properties(settings.s3),
    }
    if catalog.uri is not None:
        properties["uri"] = catalog.uri
    if catalog.kind is CatalogKind.SQLITE:
        properties["uri"] = f"sqlite:///{_catalog_file(settings)}"
    return {**properties, **catalog.properties}


def _catalog_file(settings: Settings) -> Path:
    if settings.lake.startswith("s3://"):
        raise CatalogUnfit(
            f"{settings.lake}: a SQLite catalog needs a lake that is a path; make 'catalog' sql, rest or glue"
        )
    file = Path(settings.lake) / CATALOG_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _s3_properties(s3: S3Settings) -> dict[str, str]:
    properties = {"s3.region": s3.region, "s3.connect-timeout": str(s3.connect_timeout_s)}
    if s3.endpoint_url is not None:
        properties["s3.endpoint"] = s3.endpoint_url
    if s3.addressing == "virtual":
        properties["s3.force-virtual-addressing"] = "true"
    return properties
