"""Reads staged objects from the lake or their source; picklable for Spark workers."""

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.storage.layout import object_key, step_key
from spark_jobs.storage.manifest import Manifest, ManifestEntry, read_manifest
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import MANIFEST
from spark_jobs.storage.stores import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The location of an object's bytes and the version that they must have; empty if immutable."""

    store: ObjectStore
    key: str
    version: str


@dataclass(frozen=True, slots=True)
class StagedObjects:
    """The bytes behind manifest entries."""

    settings: Settings

    def locate(self, entry: ManifestEntry) -> Located:
        """The source for a referenced object, the lake for a copied one."""
        if entry.referenced:
            root = self.settings.source(entry.source).root
            store = open_store(root, self.settings.s3)
            return Located(store=store, key=entry.path, version=entry.version)
        lake = open_store(self.settings.lake, self.settings.s3)
        return Located(store=lake, key=object_key(entry.sha256), version="")

    def read(self, entry: ManifestEntry) -> bytes:
        """The whole of a small object."""
        return self.read_range(entry, 0, entry.size)

    def read_range(self, entry: ManifestEntry, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start` on; `ObjectChanged` if a referenced object was replaced."""
        at = self.locate(entry)
        return at.store.read_range(at.key, start, length, version=at.version)

    def local_path(self, entry: ManifestEntry) -> Path | None:
        """The file to map, where there is one."""
        at = self.locate(entry)
        return at.store.local_path(at.key)


def read_run_manifest(lake: ObjectStore, run_id: str) -> Manifest:
    """The manifest of a run that has been staged."""
    key = step_key(run_id, Step.STAGE, MANIFEST)
    return read_manifest(lake.read(key), source=lake.url_of(key))
