"""`kind: tiered`: segments that brokers uploaded to tiered storage, in the layout of a known plugin.

Every object is taken once: uploads do not change. A retried upload has the offsets of an earlier one, and
those of two leaders may overlap, so segments that overlap become separate copies of the log, which `admit`
merges with each other and with copies of log directories. Where a segment ends is not in its name: the
manifest says it (aiven), or the last batch, which is found by the offset index.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby
from typing import ClassVar

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.formats.aiven_manifest import SegmentManifest
from spark_jobs.kafka.formats.tier_files import (
    INDEXES,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    TXN_INDEX,
    TierFile,
    TierLayout,
    foreign_layout,
)
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.aiven import INDEX_PARTS, AivenObjects, index_path, stem_of
from spark_jobs.lake.errors import (
    ObjectChanged,
    ObjectDamaged,
    ObjectMissing,
    StorageError,
    StoreDenied,
)
from spark_jobs.lake.manifest import ObjectRole, SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
from spark_jobs.lake.tiers import (
    LAYOUTS,
    Upload,
    end_by_index,
    recognise,
    start_of,
    stem_of_key,
    uploads_of,
)
from spark_jobs.sources.source import LEGAL_TOPIC, Content, Placed, SourceReader

INCOMPLETE = "incomplete upload"
NEWEST_ONLY = frozenset({SNAPSHOT, LEADER_EPOCHS})
"""Of these the newest upload of a partition has all that is needed."""
ROLES = {
    LOG: ObjectRole.LOG,
    TXN_INDEX: ObjectRole.TXN_INDEX,
    SNAPSHOT: ObjectRole.SNAPSHOT,
    LEADER_EPOCHS: ObjectRole.LEADER_EPOCHS,
}


REASONS: Mapping[type[StorageError], SetAside] = {
    ObjectDamaged: SetAside.DAMAGED,
    ObjectMissing: SetAside.VANISHED,
    ObjectChanged: SetAside.CHANGED,
    StoreDenied: SetAside.UNREADABLE,
}
"""Faults of one upload; any other error is the store's and stops the run."""


class Tiered(SourceReader):
    """Whole uploads; what else is below the root is ignored, and reported if nothing is recognised."""

    origin: ClassVar[AppendOrigin] = AppendOrigin.REPLICATION
    expected: ClassVar[str] = "uploaded segments in the source's layout"

    @property
    def _layout(self) -> TierLayout:
        return self.source.layout or TierLayout.LOCAL

    def content(self, settings: Settings) -> Content:
        store = self.open(settings)
        return self._aiven(store) if self._layout is TierLayout.AIVEN else store

    def _aiven(self, store: ObjectStore) -> AivenObjects:
        return AivenObjects(store, self.source.encryption_keys)

    def objects(self, settings: Settings, first: date, last: date) -> Iterator[ObjectStat]:
        del first, last
        for _, listed in groupby(self.open(settings).list(), key=lambda stat: stat.key.rpartition("/")[0]):
            yield from self._of_directory(list(uploads_of(self._layout, listed)))

    def _of_directory(self, found: Sequence[Upload | ObjectStat]) -> Iterator[ObjectStat]:
        """The objects of a partition that runs read, one that represents each incomplete upload, others."""
        yield from (each for each in found if isinstance(each, ObjectStat))
        uploads = [each for each in found if isinstance(each, Upload)]
        lacking = {each.stem: each.lacks(LAYOUTS[self._layout].parts) for each in uploads}
        newest = max((stem for stem, parts in lacking.items() if not parts), default="")
        for each in uploads:
            if not lacking[each.stem]:
                yield from self._of_upload(each, is_newest=each.stem == newest)
            else:
                without = ", ".join(lacking[each.stem])
                problem = (
                    f"{INCOMPLETE} without {without}: it is under way, was given up, or is being deleted"
                )
                yield replace(each.objects.get(LOG) or next(iter(each.objects.values())), problem=problem)

    def _of_upload(self, upload: Upload, *, is_newest: bool) -> Iterator[ObjectStat]:
        objects = dict(upload.objects)
        if self._layout is TierLayout.AIVEN:
            indexes = objects[INDEXES]
            objects = {part: replace(indexes, key=index_path(upload.stem, part)) for part in INDEX_PARTS}
            objects[LOG] = upload.objects[LOG]
        yield from (
            stat for part, stat in objects.items() if part in ROLES and (is_newest or part not in NEWEST_ONLY)
        )

    def place(self, stat: ObjectStat) -> Placed | StageProblem | None:
        if stat.problem.startswith(INCOMPLETE):
            file = self._parse(stat.key)
            is_wanted = file is not None and self.source.topics.takes(file.topic)
            return self.set_aside(stat, SetAside.INCOMPLETE, stat.problem) if is_wanted else None
        return super().place(stat)

    def place_below_date(self, stat: ObjectStat, day: date | None, parts: list[str]) -> Placed | None:
        del parts
        file = self._parse(stat.key)
        if file is None or file.part not in ROLES or LEGAL_TOPIC.fullmatch(file.topic) is None:
            return None
        if not self.source.topics.takes(file.topic):
            return None
        return Placed(
            source=self.source,
            stat=stat,
            role=ROLES[file.part],
            topic=file.topic,
            partition=file.partition,
            day=day,
            topic_id=file.topic_id,
        )

    def _parse(self, path: str) -> TierFile | None:
        """The object at `path`, which for an index of Aiven's is below the object that holds all indexes."""
        whole, slash, part = path.partition(f".{INDEXES}/")
        is_index = self._layout is TierLayout.AIVEN and slash
        file = LAYOUTS[self._layout].parse((f"{whole}.{INDEXES}" if is_index else path).split("/"))
        if file is None or not file.topic.startswith(self.source.key_prefix):
            return None
        topic = file.topic.removeprefix(self.source.key_prefix)
        return replace(file, topic=topic, part=part if is_index else file.part)

    def why_unrecognised(self, examples: Sequence[str]) -> str:
        if foreign := foreign_layout(examples):
            return f"{foreign}; this layout is not supported"
        found = recognise(examples)
        if found is not None and found is not self._layout:
            return f"they have the layout {found}, not {self._layout}; see layout"
        return f"none has a name of the layout {self._layout}; see layout, root and key_prefix"

    # Where each segment ends is known only from its bytes.

    def describe(self, placed: Sequence[Placed], settings: Settings) -> Iterator[Placed | StageProblem]:
        store = self.open(settings)
        stems = list(dict.fromkeys(stem_of_part(each.path) for each in placed))
        with ThreadPoolExecutor(settings.limits.stage_threads) as readers:
            found = dict(zip(stems, readers.map(lambda stem: self._segment(stem, store), stems), strict=True))
        copies = _copies(
            (each, segment)
            for each in placed
            if each.role is ObjectRole.LOG
            and isinstance(segment := found[stem_of_part(each.path)], UploadedSegment)
        )
        for each in placed:
            segment = found[stem_of_part(each.path)]
            if isinstance(segment, UploadedSegment):
                yield self._described(each, segment, copies)
            elif each.role is ObjectRole.LOG:
                yield self.set_aside(each.stat, segment.reason, segment.why)

    def _described(self, placed: Placed, segment: "UploadedSegment", copies: Mapping[str, str]) -> Placed:
        size = segment.sizes.get(placed.path, placed.stat.size)
        return replace(
            placed,
            stat=replace(placed.stat, size=size),
            copy=copies.get(placed.path, ""),
            state_offset=segment.end if placed.role is ObjectRole.SNAPSHOT else 0,
        )

    def _segment(self, stem: str, store: ObjectStore) -> "UploadedSegment | UnfitUpload":
        try:
            if self._layout is TierLayout.AIVEN:
                return self._segment_of_manifest(stem, self._aiven(store))
            return UploadedSegment(end=end_by_index(stem, store))
        except tuple(REASONS) as error:
            return UnfitUpload(reason=REASONS[type(error)], why=str(error))

    def _segment_of_manifest(self, stem: str, objects: AivenObjects) -> "UploadedSegment | UnfitUpload":
        manifest, file = objects.manifest(stem), self._parse(f"{stem}.{LOG}")
        named = None if file is None else (file.topic, file.partition, file.topic_id, file.start_offset)
        written = (manifest.topic, manifest.partition, manifest.topic_id, manifest.start_offset)
        if named != written:
            self._check_prefix(stem, manifest)
            why = f"its manifest is of another segment: {printable(str(written))} instead of {named}"
            return UnfitUpload(reason=SetAside.DAMAGED, why=why)
        paths = (f"{stem}.{LOG}", *(index_path(stem, part) for part in INDEX_PARTS))
        sizes = {path: objects.size_of(path, manifest) for path in paths}
        return UploadedSegment(end=manifest.end_offset + 1, sizes=sizes)

    def _check_prefix(self, stem: str, manifest: SegmentManifest) -> None:
        """Stops if names and manifests differ because of the plugin's `key.prefix`: all uploads would."""
        directory, name = stem.split("/")[-3], f"{manifest.topic}-{manifest.topic_id}"
        if directory.endswith(name) and (prefix := directory.removesuffix(name)) != self.source.key_prefix:
            raise StorageError(
                f"source {self.source.name}: {printable(stem)} is an upload of the topic {manifest.topic}: "
                f"the plugin's key.prefix ends with {prefix!r}; set key_prefix: {prefix!r} for the source"
            )


def stem_of_part(path: str) -> str:
    """The upload that an object belongs to."""
    return stem_of_key(stem_of(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedSegment:
    """The offset after a segment's last batch; sizes of decoded objects by path."""

    end: int
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitUpload:
    """Why an upload is set aside."""

    reason: SetAside
    why: str


def _copies(segments: Iterable[tuple[Placed, UploadedSegment]]) -> dict[str, str]:
    """Names of further copies by the paths of segments which overlap with the ones before in their directory.

    Each segment goes into the first copy that ends where it begins, or before.
    """
    found: dict[str, str] = {}
    ordered = sorted(
        segments, key=lambda each: (_directory(each[0]), start_of(each[0].path), -each[1].end, each[0].path)
    )
    for directory, same in groupby(ordered, key=lambda each: _directory(each[0])):
        ends: list[int] = []
        for placed, segment in same:
            start = start_of(placed.path)
            number = next((number for number, end in enumerate(ends) if end <= start), len(ends))
            ends[number : number + 1] = [segment.end]
            if number:
                found[placed.path] = f"{directory}/copy-{number + 1}"
    return found


def _directory(placed: Placed) -> str:
    return placed.path.rpartition("/")[0]
