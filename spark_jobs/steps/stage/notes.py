"""The journal of a staging, in bundles: an interrupted run continues where it stopped.

A bundle is due after so many objects or so many bytes, so a killed process loses little, whatever their size.
"""

import json
import secrets
import threading
from datetime import date

from spark_jobs.config.canonical import canonical_json
from spark_jobs.storage.damage import understood
from spark_jobs.storage.layout import staging_key
from spark_jobs.storage.object_store import ObjectStore

NOTES = "read"
BUNDLE_OBJECTS = 256
BUNDLE_BYTES = 64 * 2**20


class Notes:
    """Digests of versions that were read, by identity; threads may share it."""

    def __init__(self, lake: ObjectStore, day: date) -> None:
        self._lake, self._day = lake, day
        self._lock = threading.Lock()
        self._bundle: dict[str, str] = {}
        self._bytes = 0

    def read(self) -> dict[str, str]:
        """Everything noted by earlier attempts."""
        found: dict[str, str] = {}
        for bundle in self._lake.list(staging_key(self._day, NOTES)):
            with understood(self._lake.url_of(bundle.key), "remove it: its objects are read again"):
                found.update(json.loads(self._lake.read(bundle.key)))
        return found

    def add(self, identity: str, sha256: str, size: int) -> None:
        """Notes one object of `size` bytes."""
        with self._lock:
            self._bundle[identity] = sha256
            self._bytes += size
            is_due = len(self._bundle) >= BUNDLE_OBJECTS or self._bytes >= BUNDLE_BYTES
        if is_due:
            self.write()

    def write(self) -> None:
        """Writes down what has been noted since the last bundle."""
        with self._lock:
            bundle, self._bundle, self._bytes = self._bundle, {}, 0
        if bundle:
            self._lake.put(
                staging_key(self._day, f"{NOTES}/{secrets.token_hex(8)}.json"), canonical_json(bundle)
            )

    def clear(self) -> None:
        """Removes all bundles, once the run's manifest is fixed."""
        for bundle in tuple(self._lake.list(staging_key(self._day, NOTES))):
            self._lake.delete(bundle.key)
