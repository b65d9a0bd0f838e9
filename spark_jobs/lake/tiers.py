"""What is uploaded to tiered storage: uploads and their objects, and the partitions of a tier.

An upload is a closed segment with what a broker uploads beside it. It counts when it is whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from spark_jobs.kafka.errors import CorruptIndex
from spark_jobs.kafka.formats.indexes import OFFSET_ENTRY_BYTES, read_offset_index
from spark_jobs.kafka.formats.log_files import parse_partition_dir
from spark_jobs.kafka.formats.tier_files import (
    AIVEN_PARTS,
    LOCAL_PARTS,
    LOG,
    OFFSET_INDEX,
    WATERMARK,
    TierFile,
    TierLayout,
    parse_aiven,
    parse_local,
    parse_pinterest,
)
from spark_jobs.kafka.log.segment import next_offset
from spark_jobs.lake.aiven import AivenObjects
from spark_jobs.lake.errors import ObjectDamaged, ObjectMissing, StorageError
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a plugin names its objects, and which of them every whole upload has."""

    parse: Callable[[Sequence[str]], TierFile | None]
    parts: tuple[str, ...]


LAYOUTS: Mapping[TierLayout, Layout] = {
    TierLayout.LOCAL: Layout(parse=parse_local, parts=LOCAL_PARTS),
    TierLayout.AIVEN: Layout(parse=parse_aiven, parts=AIVEN_PARTS),
    TierLayout.PINTEREST: Layout(parse=parse_pinterest, parts=(LOG,)),
}


def layout_of(path: str) -> TierLayout | None:
    """The layout that an object's path has; of Pinterest's, one name alone differs from a log directory's."""
    parts = path.split("/")
    if parts[-1] == WATERMARK:
        named = parse_partition_dir(parts[-2]) if len(parts) > 1 else None
        return None if named is None else TierLayout.PINTEREST
    return next((each for each in (TierLayout.LOCAL, TierLayout.AIVEN) if LAYOUTS[each].parse(parts)), None)


def recognise(paths: Iterable[str]) -> TierLayout | None:
    """The layout that objects with these paths have; `StorageError` for a mixture."""
    found = dict.fromkeys(layout for path in paths if (layout := layout_of(path)) is not None)
    if len(found) > 1:
        names = " and ".join(sorted(found))
        raise StorageError(f"objects of the layouts {names} in one place: read the directory of one of them")
    return next(iter(found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The objects of one upload by what they have of it."""

    stem: str
    file: TierFile
    objects: Mapping[str, ObjectStat]

    def lacks(self, parts: Iterable[str]) -> list[str]:
        """The parts that a whole upload has and this one has not."""
        return [part for part in parts if part not in self.objects]


def uploads_of(
    layout: TierLayout, listed: Iterable[ObjectStat], *, above: str = ""
) -> Iterator[Upload | ObjectStat]:
    """The uploads among `listed`, which is ordered by key; objects that belong to none as they are.

    `above` is the address that the keys begin at: the directories of a partition may be in it.
    """
    parse, parents = LAYOUTS[layout].parse, above.split("/") if above else []
    for stem, same in groupby(listed, key=lambda stat: stem_of_key(stat.key)):
        found = [(parse([*parents, *stat.key.split("/")]), stat) for stat in same]
        files = {file.part: stat for file, stat in found if file is not None}
        yield from (stat for file, stat in found if file is None)
        first = next((file for file, _ in found if file is not None), None)
        if first is not None:
            yield Upload(stem=stem, file=first, objects=files)


def stem_of_key(key: str) -> str:
    """What the keys of an upload's objects begin with."""
    directory, slash, name = key.rpartition("/")
    return f"{directory}{slash}{name.partition('.')[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPartition:
    """The uploads of one partition by start offset; several may have the same offsets."""

    store: ObjectStore
    layout: TierLayout
    topic: str
    partition: int
    topic_id: str
    uploads: tuple[Upload, ...]
    incomplete: tuple[Upload, ...]

    @property
    def url(self) -> str:
        """The directory of the partition."""
        first = (*self.uploads, *self.incomplete)[0]
        return f"{self.store.url}/{first.stem}".rpartition("/")[0]


def tier_partitions(store: ObjectStore, listed: Sequence[ObjectStat]) -> list[TierPartition]:
    """The partitions of the tier that has these objects, by topic and number; none if it is no tier."""
    above = store.url.rstrip("/")
    layout = recognise(f"{above}/{stat.key}" for stat in listed)
    if layout is None:
        return []
    uploads = [each for each in uploads_of(layout, listed, above=above) if isinstance(each, Upload)]
    found: dict[tuple[str, int], list[Upload]] = {}
    for each in without_key_prefix(store, layout, uploads):
        found.setdefault((each.file.topic, each.file.partition), []).append(each)
    _check_one_log(store, [each for same in found.values() for each in same])
    return [_partition(store, layout, same) for _, same in sorted(found.items())]


def without_key_prefix(store: ObjectStore, layout: TierLayout, uploads: Sequence[Upload]) -> list[Upload]:
    """The uploads with the names of their topics: Aiven's plugin puts its `key.prefix` before the topic."""
    prefix = _key_prefix(store, uploads) if layout is TierLayout.AIVEN else ""
    return [
        replace(each, file=replace(each.file, topic=each.file.topic.removeprefix(prefix))) for each in uploads
    ]


def _key_prefix(store: ObjectStore, uploads: Iterable[Upload]) -> str:
    """What directories have before the topic, by the first manifest that can be read."""
    for each in uploads:
        with suppress(ObjectDamaged, ObjectMissing):
            topic = AivenObjects(store, {}).manifest(each.stem).topic
            return each.file.topic.removesuffix(topic) if each.file.topic.endswith(topic) else ""
    return ""


def _partition(store: ObjectStore, layout: TierLayout, uploads: Sequence[Upload]) -> TierPartition:
    ordered = sorted(uploads, key=lambda each: (each.file.start_offset, each.stem))
    lacking = {each.stem for each in ordered if each.lacks(LAYOUTS[layout].parts)}
    file = ordered[0].file
    return TierPartition(
        store=store,
        layout=layout,
        topic=file.topic,
        partition=file.partition,
        topic_id=file.topic_id,
        uploads=tuple(each for each in ordered if each.stem not in lacking),
        incomplete=tuple(each for each in ordered if each.stem in lacking),
    )


def _check_one_log(store: ObjectStore, uploads: Iterable[Upload]) -> None:
    """Refuses a topic of two ids, and a partition in two directories of a layout without ids."""
    ids: dict[str, str] = {}
    places: dict[tuple[str, int], str] = {}
    for each in uploads:
        file, place = each.file, each.stem.rpartition("/")[0]
        if ids.setdefault(file.topic, file.topic_id) != file.topic_id:
            raise StorageError(
                f"{file.topic}: the tier has logs of several topic ids, {ids[file.topic]} and "
                f"{file.topic_id}: read the directory of one of them"
            )
        first = places.setdefault((file.topic, file.partition), place)
        if not file.topic_id and first != place:
            raise StorageError(
                f"{printable(f'{store.url}/{place}')}: {printable(first)} has the same partition: read the "
                "directory of one cluster"
            )


def start_of(path: str) -> int:
    """The start offset in an object's name."""
    return int(stem_of_key(path).rpartition("/")[2][:20])


def end_by_index(stem: str, store: ObjectStore) -> int:
    """The offset after the last batch of a plain segment, found from the last entry of its offset index."""
    log, start = f"{stem}.{LOG}", start_of(stem)
    stat = store.stat(log)
    if stat is None:
        raise ObjectMissing(f"{store.url_of(log)}: deleted since it was listed")
    return next_offset(
        lambda position, length: store.read_range(log, position, length, version=stat.version),
        stat.size,
        position=_last_indexed(f"{stem}.{OFFSET_INDEX}", store),
        base_offset=start,
    )


def _last_indexed(key: str, store: ObjectStore) -> int:
    """The position of the last batch that the index has; 0 without a readable index."""
    stat = store.stat(key)
    if stat is None or stat.problem or stat.size < OFFSET_ENTRY_BYTES:
        return 0
    last = store.read_range(key, stat.size - OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES)
    try:
        entries = read_offset_index(last, base_offset=0, source=store.url_of(key))
    except CorruptIndex:
        return 0
    return max(entries[-1].position, 0) if entries else 0
