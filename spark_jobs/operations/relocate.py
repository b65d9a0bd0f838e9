"""Relocation: turns a copied or moved lake into a lake of its own; the original is not changed."""

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.config.settings import CatalogKind, Settings
from spark_jobs.lake.errors import CatalogUnfit, ObjectMissing
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import table_names
from spark_jobs.lake.iceberg.relocation import (
    Move,
    relocate_files,
    relocate_sqlite,
    tables_elsewhere,
    with_spellings,
)
from spark_jobs.lake.identity import (
    LakeIdentity,
    home_of,
    new_identity,
    normal_location,
    read_identity,
    same_location,
)
from spark_jobs.lake.layout import CHAIN, LAKE_FILE
from spark_jobs.lake.lock import lake_lock
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """The result; `files` is 0 and `came_from` the lake's own location if there was nothing to rewrite."""

    identity: LakeIdentity
    came_from: str
    files: int = 0
    tables: int = 0


def relocate(settings: Settings, on_progress: OnProgress = lambda _: None) -> Relocation:
    """Rewrites every address in the copy; safe to repeat, and nothing but the copy is written to.

    The identity comes last: until then the lake refuses to be written to.
    """
    lake = open_lake(settings)
    home = home_of(settings, lake)
    identity = read_identity(lake)
    if same_location(home, lake.url):
        return Relocation(identity=_own(lake, identity), came_from=lake.url)
    move = with_spellings(lake, Move(old=(home,), new=lake.url))
    _check(settings, lake, move)
    with lake_lock(lake, purpose=f"relocation from {home}"):
        if identity is None:  # the old location is known only until the first address is rewritten
            identity = new_identity(home)
            lake.put_if_absent(LAKE_FILE, identity.to_bytes())
        files = relocate_files(lake, move, on_progress)
        tables = relocate_sqlite(lake, move)
        own = new_identity(lake.url, relocated_from=identity.lake_id)
        lake.put(LAKE_FILE, own.to_bytes())
    return Relocation(identity=own, came_from=home, files=files, tables=tables)


def _own(lake: ObjectStore, identity: LakeIdentity | None) -> LakeIdentity:
    if identity is None and not any(True for _ in lake.list(CHAIN)):
        raise ObjectMissing(f"{lake.url}: there is no lake; copy all of it to here first")
    return identity or new_identity(lake.url)


def _check(settings: Settings, lake: ObjectStore, move: Move) -> None:
    """Raises `CatalogUnfit` where tables would stay behind, before anything is written."""
    for old in move.old:
        if lake.url.startswith(f"{old}/") or old.startswith(f"{lake.url}/"):
            raise CatalogUnfit(
                f"{lake.url}: is inside of {old}, or contains it; copy the lake to a separate location"
            )
    warehouse = settings.catalog.warehouse
    if settings.catalog.kind is CatalogKind.SQLITE:
        outside = tables_elsewhere(lake, move)
    else:
        outside = _registered_elsewhere(settings, lake)
    if warehouse is not None and not normal_location(warehouse).startswith(f"{lake.url}/"):
        outside = outside or [warehouse]
    if outside:
        raise CatalogUnfit(
            f"{lake.url}: the catalog of this configuration has tables outside of this lake, such as "
            f"{outside[0]}; they belong to the original. Give the copy a catalog of its own ('catalog' with "
            "another uri, or other 'topics' and 'namespace') and a 'warehouse' inside of it, or none, then "
            "relocate again; `onceover repair` publishes into a new catalog what is missing there"
        )


def _registered_elsewhere(settings: Settings, lake: ObjectStore) -> list[str]:
    """Metadata files outside of the lake that the catalog names."""
    with open_catalog(settings) as catalog:
        found = [catalog.load_table(name).metadata_location for name in table_names(catalog, settings)]
    return sorted(each for each in found if not each.startswith(f"{lake.url}/"))
