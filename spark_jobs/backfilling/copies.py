"""Whether an old run can still be repeated: its staged objects may have expired."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from spark_jobs.backfilling.request import UnfitRequest
from spark_jobs.storage.layout import object_key
from spark_jobs.storage.manifest import Manifest, ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import RunFolder, read_inputs

READERS = 16


def check_copies(lake: ObjectStore, run_id: str, kept: Iterable[ManifestEntry]) -> None:
    """Raises `UnfitRequest` if the run was expired, and with it bytes that it would be run on again."""
    if not RunFolder(lake, read_inputs(lake, run_id)).is_expired:
        return
    _check(lake, run_id, (entry for entry in kept if not entry.inherited))


def check_no_longer_inherited(lake: ObjectStore, run_id: str, standing: Manifest, manifest: Manifest) -> None:
    """Raises `UnfitRequest` if the day has to read bytes that its run inherited and that have expired.

    Earlier days may have been run again without them since.
    """
    inherited = {(entry.source, entry.path) for entry in standing.entries if entry.inherited}
    _check(
        lake,
        run_id,
        (e for e in manifest.entries if not e.inherited and (e.source, e.path) in inherited),
    )


def _check(lake: ObjectStore, run_id: str, entries: Iterable[ManifestEntry]) -> None:
    copied = [entry for entry in entries if not entry.referenced]
    with ThreadPoolExecutor(READERS) as readers:
        found = readers.map(lambda entry: lake.stat(object_key(entry.sha256)), copied)
    gone = [entry for entry, stat in zip(copied, found, strict=True) if stat is None]
    if gone:
        raise UnfitRequest(
            f"{run_id}: the lake's copies of {len(gone)} objects have expired, such as "
            f"{gone[0].source}/{gone[0].path}: without them the day cannot run again"
        )
