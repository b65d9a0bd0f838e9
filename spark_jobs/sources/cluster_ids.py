"""Which cluster a copied log directory belongs to: `meta.properties` has the cluster id (facts §1.10).

All copies of one source are of one cluster, in one run and over all runs. Offsets, producer ids and
transactions of two clusters have nothing to do with each other, even where their topics have the same names.
Unknown stays unknown and is no conflict.
"""

from collections.abc import Iterable
from dataclasses import replace

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.log_files import META_PROPERTIES
from spark_jobs.protocol.meta_properties import read_cluster_id
from spark_jobs.sources.taken import Taken
from spark_jobs.storage.errors import ObjectChanged, ObjectMissing, OtherCluster
from spark_jobs.storage.manifest import Manifest, ManifestEntry
from spark_jobs.storage.staged import StagedObjects


def with_cluster_ids(manifest: Manifest, settings: Settings, taken: Taken) -> Manifest:
    """Every `meta.properties` with its cluster id; raises `OtherCluster` where a source has two."""
    known = {entry.sha256: entry.cluster_id for entry in taken.by_version.values() if entry.cluster_id}
    staged = StagedObjects(settings)
    entries = tuple(
        replace(entry, cluster_id=known.get(entry.sha256) or _read(entry, staged))
        if entry.name == META_PROPERTIES
        else entry
        for entry in manifest.entries
    )
    _check((*taken.by_version.values(), *entries))
    return replace(manifest, entries=entries)


def _check(entries: Iterable[ManifestEntry]) -> None:
    """Raises `OtherCluster` at the first id that is not the first one of its source."""
    first: dict[str, ManifestEntry] = {}
    for entry in entries:
        if entry.cluster_id and first.setdefault(entry.source, entry).cluster_id != entry.cluster_id:
            raise OtherCluster(_sentence(first[entry.source], entry))


def _sentence(one: ManifestEntry, other: ManifestEntry) -> str:
    return (
        f"source {other.source}: expected {_shown(one)}, found {_shown(other)}. One source is one cluster: "
        "offsets and transactions of two clusters cannot be distinguished. Nothing was written. Correct the "
        "source's root if it is wrong; use another lake for another cluster, or for one that was set up anew."
    )


def _shown(entry: ManifestEntry) -> str:
    return f"the cluster id {entry.cluster_id} of {entry.source}/{entry.path}"


def _read(entry: ManifestEntry, staged: StagedObjects) -> str:
    try:
        return read_cluster_id(staged.read(entry))
    except (ObjectMissing, ObjectChanged):
        return ""
