"""Tiered storage and buckets, written as the log directories that they are copies of."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from spark_jobs.config.settings import S3Settings
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT
from spark_jobs.kafka.formats.tier_files import (
    INDEXES,
    LEADER_EPOCHS,
    LOG,
    MANIFEST,
    SNAPSHOT,
    TierLayout,
    TierName,
    parse_tier_name,
)
from spark_jobs.lake.aiven import AivenObjects
from spark_jobs.lake.stores import open_store
from spark_jobs.lake.tiers import end_by_index
from spark_jobs.reading.errors import NotKafka
from spark_jobs.sources.tier_view import find_tier, write_log_directory

S3 = "s3://"


def view_of(place: str, folder: Path, keys: Mapping[str, str]) -> Path:
    """The path of what the place is written as below `folder`; the place itself if it is no tier."""
    path = Path(place)
    named = parse_tier_name(path.name) if path.is_file() else None
    if named is not None:
        return _file_view(path, named, folder, keys)
    place = place.rstrip("/") if place.startswith(S3) else str(path.absolute())
    tier = find_tier(place, S3Settings())
    if tier:
        found = write_log_directory(tier, folder, keys)
        if not found:
            raise NotKafka(f"{place}: no whole upload in the layout {tier[0].layout}")
        return found[0] if tier[0].url == place else folder
    return _downloaded(place, folder) if place.startswith(S3) else path


def _file_view(path: Path, named: TierName, folder: Path, keys: Mapping[str, str]) -> Path:
    """One object of an upload under the name that it would have in a log directory."""
    folder.mkdir()
    stem = path.name.removesuffix(f".{named.part}")
    if path.with_name(f"{stem}.{MANIFEST}").exists():
        if named.part in (INDEXES, MANIFEST):
            raise NotKafka(f"{path}: an object of the layout {TierLayout.AIVEN}; inspect its directory")
        objects = AivenObjects(open_store(str(path.parent), S3Settings()), keys)
        view = folder / f"{named.offset:020d}.{LOG}"
        with view.open("wb") as file:
            file.writelines(objects.chunks(path.name))
        return view
    offset = named.offset
    if named.part == SNAPSHOT and path.with_suffix(f".{LOG}").exists():
        offset = end_by_index(stem, open_store(str(path.parent), S3Settings()))
    name = LEADER_EPOCH_CHECKPOINT if named.part == LEADER_EPOCHS else f"{offset:020d}.{named.part}"
    view = folder / name
    view.symlink_to(path.absolute())
    return view


def _downloaded(place: str, folder: Path) -> Path:
    """A copy of what is at an `s3://` address: a directory, or one object."""
    store = open_store(place, S3Settings())
    keys = [stat.key for stat in store.list()]
    if not keys:
        root, _, key = place.rpartition("/")
        store, keys = open_store(root, S3Settings()), [key]
        if store.stat(key) is None:
            raise NotKafka(f"{place}: there is no such object, and none below it")
        return _fetch(store.chunks(key), folder / key)
    for key in keys:
        _fetch(store.chunks(key), folder / key)
    return folder


def _fetch(pieces: Iterable[bytes], to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as file:
        file.writelines(pieces)
    return to
