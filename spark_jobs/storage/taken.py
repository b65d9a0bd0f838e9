"""What earlier nights have taken already: each object belongs to exactly one run.

A run of date D takes every object of a date up to D that no run speaking for an earlier date has taken. So an
object that arrives late for D-1 comes in with D, and a backfill of D takes what D had and what came late. An
object is known by source, path and content: replaced by other bytes under its old name, it is a new one.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date

from spark_jobs.protocol.topic_partition import topic_of
from spark_jobs.storage.chain import ChainEntry
from spark_jobs.storage.manifest import Manifest, ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.staged import read_run_manifest

READERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLog:
    """A log of a topic that earlier runs have taken: what it is called, and since which run date."""

    name: str
    since: date | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Objects of earlier runs, by version to skip without reading, by content to recognise after it.

    `decisions` are the replays that they have taken up, `logs` by topic and topic id the logs that they know,
    oldest first. `runs` are their run ids and manifests, as given.
    """

    by_version: dict[tuple[str, str, str], ManifestEntry] = field(default_factory=dict)
    contents: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    decisions: set[str] = field(default_factory=set)
    logs: dict[str, dict[str, KnownLog]] = field(default_factory=dict)
    runs: list[tuple[str, Manifest]] = field(default_factory=list)

    def same_version(self, source: str, path: str, version: str) -> ManifestEntry | None:
        """The entry of this very version, if an earlier run took it."""
        return self.by_version.get((source, path, version))

    def has(self, source: str, path: str, sha256: str) -> bool:
        """Whether an earlier run took these bytes under this name."""
        return sha256 in self.contents.get((source, path), ())

    def has_other(self, source: str, path: str, sha256: str) -> bool:
        """Whether an earlier run took other bytes under this name."""
        return (source, path) in self.contents and not self.has(source, path, sha256)

    def add(self, manifest: Manifest, run_id: str = "") -> None:
        """The run of that id has taken what `manifest` holds."""
        self.runs.append((run_id, manifest))
        self.decisions.update(replay.decision for replay in manifest.replays)
        for entry in manifest.entries:
            self.by_version[entry.source, entry.path, entry.version] = entry
            self.contents.setdefault((entry.source, entry.path), set()).add(entry.sha256)
            if entry.topic_id:
                logs = self.logs.setdefault(topic_of(entry.topic), {})
                logs.setdefault(entry.topic_id, KnownLog(name=entry.topic, since=manifest.day))


def taken_by(manifests: Iterable[Manifest]) -> Taken:
    """What these manifests hold, taken together."""
    taken = Taken()
    for manifest in manifests:
        taken.add(manifest)
    return taken


def read_taken(lake: ObjectStore, runs: Sequence[ChainEntry]) -> Taken:
    """What these final runs have taken."""
    taken = Taken()
    with ThreadPoolExecutor(READERS) as readers:
        manifests = readers.map(lambda run: read_run_manifest(lake, run.run_id), runs)
        for run, manifest in zip(runs, manifests, strict=True):
            taken.add(manifest, run.run_id)
    return taken
