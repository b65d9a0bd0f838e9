"""Topic ids and cluster ids of copied logs, from `partition.metadata` and `meta.properties` (facts §1.10).

A topic that was deleted and recreated has another id, and a log that begins at offset 0 again. It is never
merged with the old log: a run stops, or gives the new log a name, states and a table of its own. A directory
without a known id belongs to the known log.
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

from spark_jobs.config.settings import OnRecreate, Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import read_cluster_id, read_partition_metadata
from spark_jobs.kafka.formats.log_files import META_PROPERTIES
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import log_name, topic_of
from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, OtherCluster, TopicRecreated
from spark_jobs.lake.manifest import (
    NO_PARTITION,
    SEGMENT_ROLES,
    Manifest,
    ManifestEntry,
    ObjectRole,
    StagedObjects,
)
from spark_jobs.sources.taken import KnownLog, Taken, as_manifest, is_updated_in_place
from spark_jobs.tables.table_names import readable_name


def with_cluster_ids(manifest: Manifest, settings: Settings, taken: Taken) -> Manifest:
    """Every `meta.properties` with its cluster id; raises `OtherCluster` where a source has two."""
    known = {entry.content: entry.cluster_id for entry in taken.by_version.values() if entry.cluster_id}
    staged = StagedObjects(settings)
    entries = tuple(
        replace(entry, cluster_id=known.get(entry.content) or _read_cluster_id(entry, staged))
        if entry.name == META_PROPERTIES
        else entry
        for entry in manifest.entries
    )
    _check((*taken.by_version.values(), *entries))
    return replace(manifest, entries=entries)


def _check(entries: Iterable[ManifestEntry]) -> None:
    """Raises `OtherCluster` if a source has two cluster ids."""
    first: dict[str, ManifestEntry] = {}
    for entry in entries:
        if entry.cluster_id and first.setdefault(entry.source, entry).cluster_id != entry.cluster_id:
            raise OtherCluster(_sentence(first[entry.source], entry))


def _sentence(one: ManifestEntry, other: ManifestEntry) -> str:
    return (
        f"source {other.source}: expected {_shown_cluster(one)}, found {_shown_cluster(other)}. "
        "One source is one cluster: "
        "offsets and transactions of two clusters cannot be distinguished. Nothing was written. Correct the "
        "source's root if it is wrong; use another lake for another cluster, or one that was set up again."
    )


def _shown_cluster(entry: ManifestEntry) -> str:
    return f"the cluster id {entry.cluster_id} of {entry.source}/{entry.path}"


def _read_cluster_id(entry: ManifestEntry, staged: StagedObjects) -> str:
    try:
        return read_cluster_id(staged.read(entry))
    except (ObjectMissing, ObjectChanged):
        return ""


Directory = tuple[str, str]
"""Source and path of a partition's directory."""
Ids = dict[Directory, str]
Logs = Mapping[str, KnownLog]
"""The logs of a topic by topic id, oldest first."""
MOST_NAMES = 3


def with_logs(
    manifest: Manifest, settings: Settings, taken: Taken, accepted: Manifest | None = None
) -> Manifest:
    """Every entry with its topic id and the name of its log as topic.

    `accepted` is the manifest of a final run of the day: a new log in it was accepted before. Raises
    `TopicRecreated` if a log must not be used, `OtherCluster` if a copy is of another cluster.
    """
    found = with_cluster_ids(manifest, settings, taken)
    found = with_topic_ids(found, settings, taken.by_version.values())
    names: dict[Directory, str] = {}
    for topic, directories in sorted(_by_topic(found).items()):
        recreated = _Topic(topic, found, settings, taken, accepted)
        names |= recreated.names(directories)
    _check_left_over(found, settings, taken)
    entries = tuple(_named(entry, names) for entry in found.entries)
    is_same = all(new.topic == old.topic for new, old in zip(entries, found.entries, strict=True))
    return found if is_same else replace(found, entries=as_manifest(found.day, entries, ()).entries)


def _named(entry: ManifestEntry, names: Mapping[Directory, str]) -> ManifestEntry:
    """The entry with the name of its log; a capture, or a file of no partition, keeps its topic."""
    return replace(entry, topic=names.get(_directory(entry), entry.topic)) if _is_of_log(entry) else entry


def _by_topic(manifest: Manifest) -> dict[str, Ids]:
    """The directories of brokers' logs with their topic ids."""
    found: dict[str, Ids] = {}
    for entry in manifest.entries:
        if _is_of_log(entry):
            found.setdefault(topic_of(entry.topic), {})[_directory(entry)] = entry.topic_id
    return found


def _is_of_log(entry: ManifestEntry) -> bool:
    return entry.partition != NO_PARTITION and entry.origin is not AppendOrigin.CLIENT


class _Topic:
    """One topic: which of its logs each directory holds."""

    def __init__(
        self, topic: str, manifest: Manifest, settings: Settings, taken: Taken, accepted: Manifest | None
    ) -> None:
        self._topic, self._manifest, self._settings, self._taken = topic, manifest, settings, taken
        self._accepted = {entry.topic_id for entry in accepted.entries} if accepted is not None else set()

    def names(self, directories: Ids) -> dict[Directory, str]:
        """The name of the log of each directory."""
        known = self._taken.logs.get(self._topic, {}) or self._unread_logs()
        new = list(
            dict.fromkeys(each for _, each in sorted(directories.items()) if each and each not in known)
        )
        if not known and len(new) < 2:
            return dict.fromkeys(directories, self._topic)
        if new:
            self._check(new, known, directories)
        logs = {each: log.name for each, log in known.items()}
        logs |= {each: log_name(self._topic, number) for number, each in enumerate(new, len(known) + 1)}
        return {where: logs[self._id_of(where, directories, logs)] for where in directories}

    def _unread_logs(self) -> Logs:
        """The log of earlier versions' runs, which did not read topic ids, by the newest file they copied."""
        files = [
            entry
            for entry in self._taken.by_version.values()
            if entry.role is ObjectRole.PARTITION_METADATA and entry.topic == self._topic
        ]
        ids = _ids_of_files(files, self._settings, ())
        newest = next((ids[entry.content] for entry in reversed(files) if ids[entry.content]), "")
        return {newest: KnownLog(name=self._topic)} if newest else {}

    def _id_of(self, where: Directory, directories: Ids, logs: Mapping[str, str]) -> str:
        """The topic id of a directory; without one, that of its neighbours or of the only known log."""
        if directories[where]:
            return directories[where]
        beside = {each for other, each in directories.items() if each and _parent(other) == _parent(where)}
        candidates = beside or set(logs)
        if len(candidates) == 1:
            return candidates.pop()
        raise TopicRecreated(
            f"{_shown(where)}: no readable partition.metadata, and the topic {self._topic} was recreated: "
            f"which of its logs this is cannot be known (topic ids {', '.join(sorted(logs))}). Copy the "
            "directory again with its partition.metadata, and run again."
        )

    def _check(self, new: list[str], known: Logs, directories: Ids) -> None:
        """Raises `TopicRecreated` unless one new log may have a table of its own."""
        places = {each: _shown(where) for where, each in sorted(directories.items(), reverse=True)}
        if self._topic in INTERNAL_TOPICS:
            raise TopicRecreated(self._other_cluster(new, known, places))
        if not known or len(new) > 1:
            raise TopicRecreated(self._several(new, places))
        if self._is_captured():
            raise TopicRecreated(self._captured(new[0], known, places))
        is_allowed = self._settings.topic(self._topic).on_recreate is OnRecreate.NEW_TABLE
        if not is_allowed and new[0] not in self._accepted:
            raise TopicRecreated(self._choice(new[0], known, places))

    def _is_captured(self) -> bool:
        return any(
            entry.origin is AppendOrigin.CLIENT and topic_of(entry.topic) == self._topic
            for entry in (*self._manifest.entries, *self._taken.by_version.values())
        )

    def _choice(self, new: str, known: Logs, places: Mapping[str, str]) -> str:
        later = readable_name(log_name(self._topic, len(known) + 1))
        return (
            f"{self._recreated(new, known, places)} Both logs begin at offset 0, so they are never merged. "
            f"Nothing was written. Either set topics: {{{self._topic}: {{on_recreate: new_table}}}}: the "
            f"table of {self._topic} stays as it is, the new log gets a table of its own ({later} if that "
            f"name is free). Or leave the topic out with topics: {{exclude: [{self._topic}]}} of its source. "
            "Or use another lake."
        )

    def _captured(self, new: str, known: Logs, places: Mapping[str, str]) -> str:
        return (
            f"{self._recreated(new, known, places)} The topic is captured, and captures have no topic ids: "
            "which batches belong to which log cannot be known. Nothing was written. Use another lake for "
            "what was captured since then, or leave the topic out with "
            f"topics: {{exclude: [{self._topic}]}} of its sources."
        )

    def _recreated(self, new: str, known: Logs, places: Mapping[str, str]) -> str:
        old, log = list(known.items())[-1]
        return (
            f"{self._topic}: the topic was deleted and recreated. {_since(log.since)} its topic id was "
            f"{old}, now it is {new} in {places[new]}."
        )

    def _other_cluster(self, new: list[str], known: Logs, places: Mapping[str, str]) -> str:
        had = [f"{each} ({_since(log.since).lower()})" for each, log in known.items()]
        had += [f"{each} in {places[each]}" for each in new[1:]]
        return (
            f"{self._topic}: expected the topic id {' or '.join(had)}, found {new[0]} in {places[new[0]]}. "
            "Another id of this topic means another cluster, or one that was set up again. Transactions and "
            "producer ids of two clusters cannot be distinguished. Nothing was written. Use another lake for "
            "the other cluster, or correct the source's root if it is wrong."
        )

    def _several(self, new: list[str], places: Mapping[str, str]) -> str:
        found = ", ".join(f"{each} in {places[each]}" for each in new[:MOST_NAMES])
        return (
            f"{self._topic}: copies have {len(new)} topic ids that no earlier run knows: {found}. The topic "
            "was deleted and recreated between these copies; which log is older cannot be known. Nothing "
            "was written. Stage only the copies of the older log first, or leave the topic out with "
            f"topics: {{exclude: [{self._topic}]}} of a source."
        )


def _since(since: date | None) -> str:
    return "In earlier runs" if since is None else f"Since the run of {since}"


def _check_left_over(manifest: Manifest, settings: Settings, taken: Taken) -> None:
    """Raises `TopicRecreated` if a directory of a new log still has segments of the old one."""
    last = {(entry.source, entry.path): entry for entry in taken.by_version.values()}
    staged = StagedObjects(settings)
    found = [
        entry
        for entry in manifest.entries
        if _is_left_over(entry, last.get((entry.source, entry.path)), staged)
    ]
    if found:
        names = ", ".join(f"{entry.source}/{entry.path}" for entry in found[:MOST_NAMES])
        raise TopicRecreated(
            f"{topic_of(found[0].topic)}: the topic was deleted and recreated, but its copy still has "
            f"{len(found)} segments of the deleted log: {names}. Nothing was written. Copy without the files "
            "that the broker has deleted (rsync --delete), and run again. If the copy is right, an earlier "
            "copy had an older partition.metadata beside these segments, so an earlier run read them as the "
            "deleted log: roll back the newest runs (`onceover runs`, `onceover rollback RUN`) and run again."
        )


def _is_left_over(entry: ManifestEntry, last: ManifestEntry | None, staged: StagedObjects) -> bool:
    """Whether earlier runs have taken the segment, or a prefix of it, under another topic id."""
    if last is None or entry.role not in SEGMENT_ROLES or not entry.size or not last.size:
        return False
    if not (entry.topic_id and last.topic_id) or entry.topic_id == last.topic_id:
        return False
    return entry.content == last.content or _begins_alike(entry, last, staged)


def _begins_alike(entry: ManifestEntry, last: ManifestEntry, staged: StagedObjects) -> bool:
    """Whether the first batch headers are equal; the checksum in them identifies the batch."""
    try:
        one, other = (staged.read_range(each, 0, HEADER_SIZE) for each in (entry, last))
    except (ObjectMissing, ObjectChanged):
        return False
    return len(one) == HEADER_SIZE and one == other


def with_topic_ids(
    manifest: Manifest, settings: Settings, earlier: Collection[ManifestEntry] = ()
) -> Manifest:
    """Every entry with the topic id of its directory; files that `earlier` runs have read are not read again.

    In a dated layout a directory keeps its id: `partition.metadata` may have come with an earlier run.
    """
    files = [entry for entry in manifest.entries if entry.role is ObjectRole.PARTITION_METADATA]
    dated = {source.name for source in settings.sources if not is_updated_in_place(source)}
    read = _ids_of_files(files, settings, earlier)
    found = {
        _directory(entry): entry.topic_id for entry in earlier if entry.topic_id and entry.source in dated
    }
    found |= {_directory(entry): read[entry.content] for entry in files}
    return replace(
        manifest,
        entries=tuple(
            replace(entry, topic_id=found.get(_directory(entry), entry.topic_id))
            for entry in manifest.entries
        ),
    )


def _ids_of_files(
    files: Iterable[ManifestEntry], settings: Settings, earlier: Iterable[ManifestEntry]
) -> dict[str, str]:
    """The topic ids in `files` by their content; empty for one that cannot be read."""
    known = (entry for entry in earlier if entry.role is ObjectRole.PARTITION_METADATA)
    ids = {entry.content: entry.topic_id for entry in known if entry.topic_id}
    unread = {entry.content: entry for entry in files if entry.content not in ids}
    with ThreadPoolExecutor(settings.limits.stage_threads) as readers:
        found = readers.map(lambda entry: _read(entry, StagedObjects(settings)), unread.values())
        return ids | dict(zip(unread, found, strict=True))


def _read(entry: ManifestEntry, staged: StagedObjects) -> str:
    try:
        return read_partition_metadata(staged.read(entry), source=f"{entry.source}/{entry.path}").topic_id
    except (CorruptCheckpoint, ObjectMissing, ObjectChanged):
        return ""


def _directory(entry: ManifestEntry) -> Directory:
    return entry.source, entry.directory


def _parent(directory: Directory) -> Directory:
    """The broker's log directory around it."""
    return directory[0], directory[1].rpartition("/")[0]


def _shown(directory: Directory) -> str:
    return "/".join(directory)
