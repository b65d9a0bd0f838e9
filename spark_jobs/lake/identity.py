"""The identity of a lake: the id and location in its file `lake.json`, checked before anything is written.

Iceberg metadata names files by absolute address. In a copy of a lake these addresses lead to the original, so
a run would write there and an expiry would delete there. A lake therefore records where it was created. At
another location it is read-only until `onceover lake relocate` has rewritten the addresses.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.settings import Settings
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import LakeMoved, understood
from spark_jobs.lake.iceberg.catalog import WAREHOUSE, open_catalog
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.layout import LAKE_FILE, RUNS
from spark_jobs.lake.lock import LakeLock, lake_lock
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.tables.publish import RUNS as RUNS_TABLE

FORMAT = 1
REMOVE_IT = "if the lake has neither been copied nor moved, remove it: the next run writes it again"
METADATA_ENDING = ".metadata.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeIdentity:
    """`location` is the store's own address: an absolute path without links, or `s3://bucket/prefix`.

    `relocated_from` is the id of the lake that this one was copied from; empty for one that was never copied.
    """

    lake_id: str
    location: str
    relocated_from: str = ""
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self))


def new_identity(location: str, *, relocated_from: str = "") -> LakeIdentity:
    """An identity that no other lake has."""
    return LakeIdentity(lake_id=str(uuid.uuid4()), location=location, relocated_from=relocated_from)


def read_identity(lake: ObjectStore) -> LakeIdentity | None:
    """The recorded identity; None if the lake is new, or was created by a version without identities."""
    if lake.stat(LAKE_FILE) is None:
        return None
    with understood(lake.url_of(LAKE_FILE), REMOVE_IT):
        plain = json.loads(lake.read(LAKE_FILE))
        if plain["format"] != FORMAT:
            raise ValueError(f"format {plain['format']}, this version reads {FORMAT}")
        return LakeIdentity(**plain)


def home_of(settings: Settings, lake: ObjectStore) -> str:
    """The location where the lake was created; without an identity, according to its tables' addresses."""
    identity = read_identity(lake)
    if identity is not None:
        return identity.location
    if not any(entry.is_published for entry in read_chain(lake).entries):
        return lake.url  # without tables nothing in it has an absolute address
    from spark_jobs.lake.identity import recorded_home  # noqa: PLC0415 — Iceberg loads slowly

    return recorded_home(settings, lake)


def open_at_home(settings: Settings) -> ObjectStore:
    """The lake of this configuration; raises `LakeMoved` where it was copied or moved. Nothing is written."""
    lake = open_lake(settings)
    check_home(lake, home_of(settings, lake))
    return lake


@contextmanager
def locked_lake(settings: Settings, *, purpose: str) -> Iterator[tuple[ObjectStore, LakeLock]]:
    """The lake to write to, with its lock; raises `LakeMoved` before the lock is written."""
    lake = open_at_home(settings)
    with lake_lock(lake, purpose=purpose) as lock:
        record_identity(lake)
        yield lake, lock


def record_identity(lake: ObjectStore) -> None:
    """Writes the identity of a lake that has none yet; of two concurrent writers the first one wins."""
    if lake.stat(LAKE_FILE) is None:
        lake.put_if_absent(LAKE_FILE, new_identity(lake.url).to_bytes())


def check_home(lake: ObjectStore, home: str) -> None:
    """Raises `LakeMoved` if the lake was created at another location."""
    if same_location(home, lake.url):
        return
    raise LakeMoved(
        f"{lake.url}: this lake was made at {home} and is a copy, or was moved. Its tables' metadata names "
        f"files at {home}; writing here would change or delete files there, so nothing was written. "
        "`onceover lake relocate` makes this copy a lake of its own. To only read it: `onceover runs`, "
        "`explain`, `transactions`, `log` and `check` work on it as it is"
    )


def same_location(one: str, other: str) -> bool:
    """Whether two addresses are the same place: links, `file://` and a slash at the end do not count."""
    return normal_location(one) == normal_location(other)


def normal_location(address: str) -> str:
    """The address in the form of `ObjectStore.url`."""
    path = address.removeprefix("file://")
    return path.rstrip("/") if "://" in path else str(Path(path).resolve())


def recorded_home(settings: Settings, lake: ObjectStore) -> str:
    """The location where a published lake was created, according to its tables' metadata."""
    return _home_in_lake(lake) or _home_in_catalog(settings) or lake.url


def _home_in_lake(lake: ObjectStore) -> str:
    """From the metadata files in the lake; empty without any, because the warehouse is elsewhere."""
    key = next((each.key for each in lake.list(WAREHOUSE) if each.key.endswith(METADATA_ENDING)), "")
    if not key:
        return ""
    with understood(lake.url_of(key)):
        location: str = json.loads(lake.read(key))["location"]
    return location.removesuffix("/" + key.rpartition("/metadata/")[0])


def _home_in_catalog(settings: Settings) -> str:
    """From the address of a file of the table `runs`, which has one of every published run."""
    with open_catalog(settings) as catalog:
        table = find_table(catalog, (settings.catalog.namespace, RUNS_TABLE.name))
        if table is None or table.metadata.current_snapshot() is None:
            return ""
        tasks = table.scan().plan_files()
        return next((task.file.file_path.rpartition(f"/{RUNS}")[0] for task in tasks), "")
