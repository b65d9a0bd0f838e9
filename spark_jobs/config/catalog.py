"""Where the published tables are entered, so that engines find them."""

from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from spark_jobs.config.fields import Frozen, Location, Name, refuse


class CatalogKind(StrEnum):
    """`sqlite` is a file in the lake; the others are services that the platform runs."""

    SQLITE = "sqlite"
    SQL = "sql"
    REST = "rest"
    GLUE = "glue"


class CatalogSettings(Frozen):
    """An Iceberg catalog.

    `topics` is the namespace of the tables of topics, `namespace` that of Onceover's own. `warehouse` is
    where tables keep their metadata; default: the lake. `properties` go to the catalog as they are.
    """

    kind: CatalogKind = CatalogKind.SQLITE
    uri: str | None = None
    warehouse: Location | None = None
    topics: Name = "topics"
    namespace: Name = "onceover"
    properties: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.topics == self.namespace:
            raise refuse("'topics' and 'namespace' apart: a topic may be called like one of our own tables")
        if self.kind is CatalogKind.SQLITE and self.uri is not None:
            raise refuse("'uri' only where kind is not sqlite: that one is a file in the lake")
        if urlsplit(self.uri or "").password is not None:  # here, so that no message repeats it
            raise refuse("a 'uri' without a password: PYICEBERG_CATALOG__ONCEOVER__URI may hold one")
        return self
