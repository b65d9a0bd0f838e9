"""The rows of a partition and their bytes, for a worker."""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.config.settings import Settings
from spark_jobs.materialising.rows import COLUMNS, BatchRows, from_batches, from_inherited
from spark_jobs.materialising.summaries import Chunk, ObjectPlace, PartitionPlan
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.inherited_rows import InheritedRows, get_inherited, manifest_entry
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_row_range
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.stores import open_store

ALL_ROWS = 2**62


def rows_of_run(
    lake: ObjectStore, plan: PartitionPlan, first: int = 0, stop: int = ALL_ROWS
) -> Iterator[BatchRows]:
    """Rows `first` to `stop` of the partition's `batches`, in parts."""
    if plan.batches:
        for part in iter_row_range(lake, plan.batches, first, stop, columns=COLUMNS):
            yield from_batches(part)


def held_rows(lake: ObjectStore, digest: str) -> BatchRows:
    """The held rows of earlier runs."""
    return from_inherited(get_inherited(lake, digest).rows)


def place_of(settings: Settings, entry: ManifestEntry) -> ObjectPlace:
    """Where the bytes of a staged object lie."""
    at = StagedObjects(settings).locate(entry)
    return ObjectPlace(
        order=entry.order,
        store=at.store.url,
        key=at.key,
        version=at.version,
        source=entry.source,
        path=entry.path,
    )


@dataclass(frozen=True, slots=True)
class Objects:
    """Staged objects by the order that rows name them with."""

    settings: Settings
    places: dict[int, ObjectPlace]

    def read(self, order: int, start: int, length: int) -> bytes:
        """Bytes of an object."""
        place = self.places[order]
        store = open_store(place.store, self.settings.s3)
        return store.read_range(place.key, start, length, version=place.version)

    def name(self, order: int) -> str:
        """What messages call it."""
        return self.places[order].name


Part = tuple[Objects, Iterator[BatchRows]]


def rows_and_objects(lake: ObjectStore, settings: Settings, plan: PartitionPlan, chunk: Chunk) -> Part:
    """The rows of a chunk, and the objects that they count in."""
    if not chunk.held:
        objects = Objects(settings, {place.order: place for place in plan.objects})
        return objects, rows_of_run(lake, plan, chunk.first_row, chunk.stop_row)
    objects, rows = inherited_batches(lake, settings, plan.partition, chunk.held)
    return objects, iter((rows.take(slice(chunk.first_row, chunk.stop_row)),))


def inherited_batches(
    lake: ObjectStore, settings: Settings, partition: TopicPartition, digest: str
) -> tuple[Objects, BatchRows]:
    """All rows of a file of inherited rows, and their objects."""
    inherited = get_inherited(lake, digest)
    return Objects(settings, _inherited_places(settings, inherited, partition)), from_inherited(
        inherited.rows
    )


def _inherited_places(
    settings: Settings, inherited: InheritedRows, partition: TopicPartition
) -> dict[int, ObjectPlace]:
    entries = (
        manifest_entry(each, order=order, topic=partition.topic, partition=partition.partition)
        for order, each in enumerate(inherited.objects)
    )
    return {entry.order: place_of(settings, entry) for entry in entries}
