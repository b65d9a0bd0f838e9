"""Opens the Iceberg catalog that the settings name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from spark_jobs.config.settings import CatalogKind, S3Settings, Settings
from spark_jobs.lake.errors import CatalogUnfit, PublishFailed
from spark_jobs.lake.stores import open_lake

NAME = "onceover"
CATALOG_FILE = Path("catalog", "onceover.db")
WAREHOUSE = "tables"
_TYPES = {CatalogKind.SQLITE: "sql"}


@contextmanager
def open_catalog(settings: Settings, *, read_only: bool = False) -> Iterator[Catalog]:
    """The catalog, with both namespaces created; closed at the end.

    With `read_only`, a missing SQLite catalog is an empty one, and no file is created.
    """
    catalog = _reached(settings, in_memory=read_only and not has_catalog(settings))
    try:
        yield catalog
    finally:
        catalog.close()


def has_catalog(settings: Settings) -> bool:
    """False where the catalog is a file in the lake and there is none."""
    if settings.catalog.kind is not CatalogKind.SQLITE:
        return True
    return Path(open_lake(settings).url, CATALOG_FILE).exists()


def _reached(settings: Settings, *, in_memory: bool) -> Catalog:
    """The catalog, connected; any exception becomes a transient error of one line."""
    properties = catalog_properties(settings, in_memory=in_memory)
    try:
        catalog = load_catalog(NAME, **properties)
        for namespace in (settings.catalog.topics, settings.catalog.namespace):
            catalog.create_namespace_if_not_exists(namespace)
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        kind = settings.catalog.kind
        raise PublishFailed(f"cannot connect to the {kind} catalog: {first_line}") from error
    return catalog


def catalog_properties(settings: Settings, *, in_memory: bool = False) -> dict[str, str]:
    """The properties for pyiceberg; secrets come from its own environment variables."""
    catalog = settings.catalog
    properties = {
        "type": _TYPES.get(catalog.kind, catalog.kind.value),
        "warehouse": catalog.warehouse or f"{open_lake(settings).url}/{WAREHOUSE}",
        **_s3_properties(settings.s3),
    }
    if catalog.uri is not None:
        properties["uri"] = catalog.uri
    if catalog.kind is CatalogKind.SQLITE:
        properties["uri"] = "sqlite:///:memory:" if in_memory else f"sqlite:///{_catalog_file(settings)}"
    return {**properties, **catalog.properties}


def _catalog_file(settings: Settings) -> Path:
    if settings.lake.startswith("s3://"):
        raise CatalogUnfit(
            f"{settings.lake}: a SQLite catalog needs a lake that is a path; make 'catalog' sql, rest or glue"
        )
    file = Path(open_lake(settings).url) / CATALOG_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _s3_properties(s3: S3Settings) -> dict[str, str]:
    properties = {"s3.region": s3.region, "s3.connect-timeout": str(s3.connect_timeout_s)}
    if s3.endpoint_url is not None:
        properties["s3.endpoint"] = s3.endpoint_url
    if s3.addressing == "virtual":
        properties["s3.force-virtual-addressing"] = "true"
    return properties
